package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// lastMark returns the mark of a shard in the first snapshot that has one, and the start of its
// window.
func lastMark(snapshots []item.Item, shard int) (m ledger.Mark, start int64, ok bool) {
	for _, it := range snapshots {
		if m, ok := ledger.MarksOf(it).Shard(shard); ok {
			return m, startOf(it), true
		}
	}
	return ledger.Mark{}, 0, false
}

// ending returns the runs that complete the earlier window which the chain continues: the first
// runs if they count nothing (a removal, another generation), and then the beginning of the first
// run that counts.
func (c *Part) ending() []Run {
	var out []Run
	for _, r := range c.Runs {
		switch {
		case r.Born:
			return out
		case !r.quiet():
			return append(out, justBefore(r))
		}
		out = append(out, r)
	}
	return out
}

// quiet reports whether the run counts nothing: it is a removal without earlier records, or a
// change of the generation.
func (r *Run) quiet() bool { return r.Events == 0 && slices.Equal(r.From, r.To) }

// completed reports whether an earlier snapshot with this mark ends exactly where the chain begins.
// It may have been completed for the chain, now or by an unfinished attempt.
func (c *Part) completed(m ledger.Mark) bool {
	runs := c.ending()
	return len(runs) > 0 && runs[len(runs)-1].Last.Compare(m.At) <= 0
}

// Reopen withdraws, for the shards in behind, the claim of later totals that this total counted
// everything before them.
func (t *Total) Reopen(later []Total, behind []int) {
	for i := range later {
		for j := range later[i].Chains {
			c := &later[i].Chains[j]
			if c.Follows == t.Start && slices.Contains(behind, c.Shard) {
				c.Follows = 0
			}
		}
	}
}
