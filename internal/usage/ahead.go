package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Ahead is how far snapshots of the finest kind had counted a shard before a total
// was. Longer windows may be behind; they go on from there, so that what was lost
// is judged in all kinds of windows by the same two images.
type Ahead struct {
	Shard int
	Start int64 // of the window of the snapshot, epoch milliseconds
	run   Run   // begins and ends where the snapshot was
}

// Ahead returns how far the shards of the total were counted before it; blind tells
// whether it is written without a known.
func (t *Total) Ahead(known Snapshots, blind bool) (out []Ahead) {
	for _, c := range t.Chains {
		here := closing(c.Runs[0])
		here.sure = true
		switch {
		case c.Closed != 0: // by the part before it
			out = append(out, Ahead{c.Shard, c.Closed, here})
		case blind: // as far as it expects
			out = append(out, Ahead{c.Shard, t.Start, here})
		default:
			if a, ok := lastMark(append([]item.Item{known.Current}, known.Previous...), c.Shard); ok {
				out = append(out, a)
			}
		}
	}
	return out
}

// lastMark returns how far a shard was counted by the first of some snapshots that
// did.
func lastMark(snapshots []item.Item, shard int) (a Ahead, ok bool) {
	for _, it := range snapshots {
		if m, ok := table.MarksOf(it).Shard(shard); ok {
			return Ahead{shard, startOf(it), markRun(m)}, true
		}
	}
	return a, false
}

// markRun returns the run that says only where a mark is.
func markRun(m table.Mark) Run {
	return Run{First: m.At, Last: m.At, From: m.Used, To: m.Used, Gone: m.Gone, FromLife: m.Life, ToLife: m.Life,
		sure: true}
}

// GoOnFrom lets the total of a longer kind of window go on from where the finest
// snapshots were.
func (t *Total) GoOnFrom(ahead []Ahead) {
	for i := range t.Chains {
		c := &t.Chains[i]
		for _, a := range ahead {
			if a.Shard == c.Shard && c.Closed == 0 {
				c.ahead, c.aheadStart = &a.run, t.Window.Start(a.Start)
				break // the first is where all that is counted now begins
			}
		}
	}
}

// runs returns the runs of the chain in a window, which begins with what the
// finest snapshots had counted in it.
func (c *Chain) runs(start int64) []Run {
	if c.ahead == nil || c.aheadStart != start {
		return c.Runs
	}
	return append([]Run{*c.ahead}, c.Runs...)
}

// ending returns the runs that complete an earlier window, where the chain begins:
// those that count nothing themselves, a removal or another generation, and where
// the first that counts begins.
func (c *Chain) ending(start int64) []Run {
	var out []Run
	if c.ahead != nil && c.aheadStart == start {
		out = append(out, *c.ahead)
	}
	for _, r := range c.Runs {
		switch {
		case r.Born:
			return out
		case !r.quiet():
			return append(out, closing(r))
		}
		out = append(out, r)
	}
	return out
}

// quiet reports whether the run counts nothing: it is a removal of which nothing was
// seen before, or a change of the generation.
func (r *Run) quiet() bool { return !r.Born && r.Events == 0 && slices.Equal(r.From, r.To) }

// earlier returns how far the shard was counted before the window of a chain that has
// no mark in it yet; ok is false if that is not known. Mostly the chain begins after
// it. It does not where what an earlier snapshot was completed with, because it had
// not been seen, comes after all: of counters 100, 110 and 120, left in three hours, the
// second record was lost, and the first hour was completed with 10 when the third
// came; brought by a replay, the second counts nothing.
func (c *Chain) earlier(stored Snapshots) (m table.Mark, ok bool) {
	a, ok := lastMark(stored.Previous, c.Shard)
	if ok {
		m = a.run.mark()
	}
	if c.ahead != nil && c.ahead.Last.Compare(m.At) > 0 {
		m, ok = c.ahead.mark(), true
	}
	return m, ok
}

// mark returns where the run ends.
func (r *Run) mark() table.Mark {
	return table.Mark{At: r.Last, Used: r.To, Gone: r.Gone, Life: r.ToLife}
}

// Reopen takes back, from later totals of the same kind of window, that one before
// them holds everything up to where shards begin: it does not hold those that are
// behind.
func (t *Total) Reopen(later []Total, behind []int) {
	for i := range later {
		l := &later[i]
		for j := range l.Chains {
			c := &l.Chains[j]
			if l.Window == t.Window && c.Closed != 0 && t.Window.Start(c.Closed) == t.Start &&
				slices.Contains(behind, c.Shard) {
				c.Closed = 0
			}
		}
	}
}
