package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Snapshots is what is known of the snapshots that a total is about. The zero one
// knows nothing.
type Snapshots struct {
	Known   bool
	Current item.Item // the total's own, nil: there is none

	// Previous are earlier snapshots of the same kind of window, latest first.
	PreviousKnown bool
	Previous      []item.Item

	// Seen are, for a total of the finest kind of window, its own and the earlier
	// snapshots of the bucket, of all kinds, latest first, as far as they were looked
	// through; Whole: there are no others.
	Seen  []item.Item
	Whole bool
	// Sure says that they were read consistently, and that Births are the snapshots
	// at [Total.BirthKeys], nil where there is none.
	Sure   bool
	Births []item.Item
}

// Action is what to do next about a total.
type Action int

// The actions.
const (
	Done         Action = iota // nothing is left
	ReadCurrent                // learn Snapshots.Current
	ReadPrevious               // learn Snapshots.Previous
	ReadSurely                 // the same, consistently, and Snapshots.Births
	Begin                      // count Beginnings, longer windows first; then begin anew, with Total.Begun set
	Close                      // write Update, which completes an earlier snapshot
	Add                        // write Update, after which nothing is left
)

// Step is what to do next about a total.
type Step struct {
	Action Action
	Update item.Update
	// Of a Close: which of Snapshots.Previous it writes.
	At int
	// Of an Add: Plain says that all runs went on from marks, in one life and
	// generation, of this snapshot or of earlier ones whose windows begin at
	// Since or later.
	Plain bool
	Since int64
	Start int64 // of the total

	// Behind are the shards of which everything was counted before, here or in an
	// earlier window, with a later record: the total brings what had been lost.
	Behind []int

	Beginnings []Part // of a Begin: what shards had consumed before their first records
	// Of an Add: shards of which that is not known, and not counted.
	Unknown int
}

// Next returns what to do next about the total. A snapshot that has counted up to
// where the runs begin takes the difference, under the condition that it has. A
// shard that it has not counted yet begins here; but first the earlier snapshot
// that counted it is completed, if something between was not seen.
func (t *Total) Next(known Snapshots) Step {
	if !known.Known {
		if t.Careful || !t.Current && !t.born() || !t.expected() || t.Over && t.creates() {
			return Step{Action: ReadCurrent}
		}
		return t.blind()
	}
	marks := table.MarksOf(known.Current)
	if !known.PreviousKnown && t.begins(marks) {
		return Step{Action: ReadPrevious}
	}
	if begun := t.beginnings(known, marks); len(begun) > 0 {
		if !known.Sure {
			return Step{Action: ReadSurely}
		}
		return Step{Action: Begin, Beginnings: begun}
	}
	others := known.Current != nil && !marks.Any
	for at, previous := range known.Previous {
		m := table.MarksOf(previous)
		if others || !m.Any {
			break // counted by another client: what was not seen by us, it saw
		}
		if u, needed := t.close(m, marks, known.Previous[:at]); needed {
			if !known.Sure {
				return Step{Action: ReadSurely}
			}
			return Step{Action: Close, Update: u.At(item.KeyOf(previous)), At: at}
		}
	}
	return t.exact(known, marks)
}

// GoesOn reports whether, as far as the total itself tells, longer windows can be
// left to count it by the difference alone: every chain is one life in one
// generation that no limit vanishes from, and begins in no window of theirs that
// the one before it is not in.
func (t *Total) GoesOn(longer []Total) bool {
	return !slices.ContainsFunc(t.Chains, func(c Chain) bool {
		return !plainAfter(c.Runs) || c.Closed != 0 && !sameWindows(longer, c.Closed, t.Start)
	})
}

// sameWindows reports whether two instants lie in the same window of each kind.
func sameWindows(kinds []Total, a, b int64) bool {
	return !slices.ContainsFunc(kinds, func(t Total) bool { return t.Window.Start(a) != t.Window.Start(b) })
}

// GoesOn reports whether longer windows can be left to count what the step writes by
// the difference alone: each of them has counted up to where it begins, or owes
// just that.
func (s Step) GoesOn(longer []Total) bool {
	return s.Action == Add && s.Plain && sameWindows(longer, s.Since, s.Start)
}

// born reports whether every chain begins with the creation of its shard.
func (t *Total) born() bool {
	return !slices.ContainsFunc(t.Chains, func(c Chain) bool { return !c.Runs[0].Born })
}

// creates reports whether some chain begins with the creation of its shard.
func (t *Total) creates() bool {
	return slices.ContainsFunc(t.Chains, func(c Chain) bool { return c.Runs[0].Born })
}

// expected reports whether it is known of every chain whether it has a mark.
func (t *Total) expected() bool {
	return !slices.ContainsFunc(t.Chains, func(c Chain) bool { return !c.Runs[0].Born && c.Closed == 0 && !c.Fresh })
}

// begins reports whether a chain without a mark may go on from an earlier window.
func (t *Total) begins(marks table.Marks) bool {
	return slices.ContainsFunc(t.Chains, func(c Chain) bool { return c.begins(marks, t) })
}

func (c *Chain) begins(marks table.Marks, t *Total) bool {
	_, known := marks.Shard(c.Shard)
	if known || c.Closed != 0 || c.ahead != nil && c.aheadStart == t.Start {
		return false
	}
	return !c.Runs[0].Born || c.ahead != nil || t.Over
}

// blind is the write for a snapshot that was not looked at.
func (t *Total) blind() Step {
	u := t.usage()
	plain := true
	moved := false
	for _, c := range t.Chains {
		first := c.Runs[0]
		var from table.Expect
		known := !first.Born && c.Closed == 0
		mark := table.Mark{At: first.First, Used: first.From, Life: first.FromLife}
		if known {
			from.Counted = &mark
		}
		before := mark
		before.At = first.First.Before()
		sum := tallyOf(before, known, c.Runs)
		addTally(&u, sum)
		moved = moved || sum.moved
		plain = plain && (sum.plain || c.Closed != 0 && plainAfter(c.Runs))
		u.Moves = append(u.Moves, table.Move{Shard: c.Shard, From: from, To: sum.mark})
	}
	if !moved {
		return Step{Action: Done}
	}
	since := t.Start
	for _, c := range t.Chains {
		if c.Closed != 0 {
			since = min(since, c.Closed)
		}
	}
	return Step{Action: Add, Update: u.Update(), Plain: plain, Since: since, Start: t.Start}
}

// plainAfter reports whether runs that begin in a window go on plainly from what
// came before.
func plainAfter(runs []Run) bool {
	m := table.Mark{At: runs[0].First.Before(), Used: runs[0].From, Life: runs[0].FromLife}
	return !runs[0].Born && tallyOf(m, true, runs).plain
}

// exact is the write for a snapshot as it was seen.
func (t *Total) exact(stored Snapshots, marks table.Marks) Step {
	u := t.usage()
	u.Seen = &marks
	var own []Run
	step := Step{Action: Add, Plain: true, Since: t.Start, Start: t.Start}
	for _, c := range t.Chains {
		mark, known := marks.Shard(c.Shard)
		runs := c.runs(t.Start)
		counted := known
		if !known {
			if mark, counted = c.earlier(stored); !counted && t.Finest && c.unseen() {
				step.Unknown++
			}
		}
		counted = counted && runs[0].First.Compare(mark.At) <= 0
		if counted && runs[len(runs)-1].Last.Compare(mark.At) <= 0 {
			step.Behind = append(step.Behind, c.Shard)
		}
		sum := tallyOf(mark, known || counted, runs)
		if !known && !c.Runs[0].Born {
			since, linked := c.linked(stored)
			sum.plain = (linked || c.Closed != 0) && plainAfter(c.Runs)
			if c.Closed != 0 {
				since = c.Closed
			}
			step.Since = min(step.Since, since)
		}
		step.Plain = step.Plain && sum.plain
		if !sum.moved {
			continue
		}
		addTally(&u, sum)
		own = append(own, runs...)
		u.Moves = append(u.Moves, table.Move{Shard: c.Shard, From: table.Expect{Exactly: true}, To: sum.mark})
	}
	if len(u.Moves) == 0 {
		return Step{Action: Done, Behind: step.Behind}
	}
	sparing(&u, own)
	step.Update = u.Update()
	return step
}

// linked reports whether the chain begins with the counters of the last earlier
// snapshot that counted its shard, and when the window of that one began.
func (c *Chain) linked(stored Snapshots) (since int64, ok bool) {
	for _, previous := range stored.Previous {
		if mark, known := table.MarksOf(previous).Shard(c.Shard); known {
			return startOf(previous), contiguous(mark, c.Runs[0])
		}
	}
	return 0, false
}
