package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// complete returns the write that completes an earlier snapshot, whose marks are m. It is for
// shards that begin in this total and that no later snapshot has counted. needed is false if there
// are no such shards.
func (t *Total) complete(m, marks ledger.Marks, later []item.Item) (up item.Update, needed bool) {
	u := ledger.Usage{Seen: &m}
	for _, c := range t.Chains {
		mark, known := m.Shard(c.Shard)
		counted := slices.ContainsFunc(later, func(it item.Item) bool {
			_, ok := ledger.MarksOf(it).Shard(c.Shard)
			return ok
		})
		if !known || counted || !c.begins(marks, t) {
			continue
		}
		sum := tallyOf(mark, true, c.ending())
		if !sum.moved {
			continue
		}
		addTally(&u, sum)
		u.Moves = append(u.Moves, ledger.Move{Shard: c.Shard, To: sum.mark})
	}
	if len(u.Moves) == 0 {
		return up, false
	}
	sparing(&u, nil) // they count nothing themselves
	up = u.Update()
	up.Key, up.SetIfAbsent = item.KeyOf(m.Snapshot()), nil // it has the attributes of a new one
	return up, true
}

// sparing subtracts the counts of other aggregators in the snapshot from the usage, but leaves the
// tokens of the runs, because others can only have counted records that are missing here. Example:
// the runs show 5 tokens, the difference to the mark is 12, and another aggregator has counted 4: 8
// remain.
func sparing(u *ledger.Usage, runs []Run) {
	u.Others = u.Seen.Others()
	if len(u.Others) == 0 {
		return
	}
	var own ledger.Usage
	for _, r := range runs {
		if r.whole {
			continue // only the difference matters
		}
		addTally(&own, tallyOf(ledger.Mark{}, false, []Run{r}))
	}
	for i := range u.Counts {
		c := &u.Counts[i]
		said, _ := ledger.CountOf(own.Counts, c.Limit)
		for j := range u.Others {
			if o := &u.Others[j]; o.Limit == c.Limit {
				both := max(0, min(o.Tokens, c.Tokens-said))
				c.Tokens -= both
				o.Tokens -= both
			}
		}
	}
}
