package usage

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// tally is the growth that runs add to a snapshot that has counted up to a mark.
type tally struct {
	counts []ledger.Count // growth by limit, including zeros
	events int64
	mark   ledger.Mark // after the runs
	moved  bool        // there is something to write
}

// tallyOf computes the growth by the runs; known is false if the shard has no mark in the snapshot.
// It counts the difference to the mark: records before the mark add nothing, and the consumption
// between the mark and the first record is counted even if its records were lost.
func tallyOf(m ledger.Mark, known bool, runs []Run) tally {
	t := tally{mark: m}
	for _, r := range runs {
		if known && r.Last.Compare(t.mark.At) <= 0 {
			continue
		}
		before := t.mark
		t.add(r, known)
		t.moved = t.moved || r.Events > 0 || known && (r.FromGen != r.ToGen || r.Gone && !before.Gone)
		known = true
	}
	for _, c := range t.counts {
		t.moved = t.moved || c.Tokens != 0
	}
	return t
}

// add counts one run from its base: the counters already counted.
func (t *tally) add(r Run, known bool) {
	base := r.From
	within := known && r.First.Compare(t.mark.At) <= 0
	switch {
	case within: // from 100 to 110, and the mark is at 104: 6 are left
		base = t.mark.Used
	case r.Born && !(r.whole && known): // created with 5: 5
		base = nil
	case !known, !t.mark.Gone && len(t.mark.Used) == 0: // no mark, or one without counters: from 100 to 110 is 10
	case t.mark.Gone: // removed at the mark, then from 3 to 5: another life whose creation was lost, 5
		base = nil
	case sameLife(t.mark, r): // mark at 104, from 107 to 110: 6, of which 3 were lost
		base = t.mark.Used
	default: // mark at 104, from 3 to 5 in another generation: the end of the life before was lost too, 5
		base = nil
	}
	grow := func(c ledger.Count) {
		n, _ := ledger.CountOf(base, c.Limit)
		if _, old := ledger.CountOf(r.From, c.Limit); !old && !within {
			n = 0 // it began within the run, and perhaps not for the first time
		}
		t.count(c.Limit, c.Tokens-n)
	}
	for _, c := range r.To {
		grow(c)
	}
	for _, c := range r.From { // the last counters of limits that disappear
		if _, ok := ledger.CountOf(r.To, c.Limit); !ok {
			grow(c)
		}
	}
	t.events += r.Events
	t.mark = ledger.Mark{At: r.Last, Used: r.To, Gone: r.Gone, Gen: r.ToGen}
	if r.Gone || r.Wide {
		t.mark.Used = nil
	}
}

func (t *tally) count(limit string, tokens int64) {
	for i := range t.counts {
		if t.counts[i].Limit == limit {
			t.counts[i].Tokens = bucket.AddSat(t.counts[i].Tokens, tokens)
			return
		}
	}
	t.counts = append(t.counts, ledger.Count{Limit: limit, Tokens: tokens})
}

// sameLife reports whether the run continues the life in which the mark was made. The same
// generation proves it. But generations also change within a life, and items of other clients have
// none. Then lower counters indicate a new life, because between two records much more is taken
// than given back.
func sameLife(m ledger.Mark, r Run) bool {
	if m.Gen == r.FromGen && m.Gen != 0 {
		return true
	}
	for _, c := range r.From {
		if n, ok := ledger.CountOf(m.Used, c.Limit); ok && c.Tokens-n < 0 { // counters wrap around
			return false
		}
	}
	return true
}
