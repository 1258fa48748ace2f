package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// close completes an earlier snapshot, whose marks are m, where it was the last to
// count a shard that begins in this one.
func (t *Total) close(m, marks table.Marks, later []item.Item) (u closingUsage, needed bool) {
	u.Usage.Seen = &m
	var own []Run
	for _, c := range t.Chains {
		mark, known := m.Shard(c.Shard)
		counted := slices.ContainsFunc(later, func(it item.Item) bool {
			_, ok := table.MarksOf(it).Shard(c.Shard)
			return ok
		})
		if !known || counted || !c.begins(marks, t) {
			continue
		}
		runs := c.ending()
		sum := tallyOf(mark, true, runs)
		if !sum.moved {
			continue
		}
		addTally(&u.Usage, sum)
		own = append(own, runs...)
		u.Usage.Moves = append(u.Usage.Moves, table.Move{Shard: c.Shard, From: table.Expect{Exactly: true}, To: sum.mark})
	}
	sparing(&u.Usage, own)
	return u, len(u.Usage.Moves) > 0
}

// closingUsage is usage for a snapshot that exists.
type closingUsage struct{ table.Usage }

// At returns the write on the snapshot with that key: what is there already, from
// its entity to its lifetime, stays.
func (u closingUsage) At(k item.Key) item.Update {
	up := u.Usage.Update()
	up.Key, up.SetIfAbsent = k, nil
	return up
}

// sparing takes off the usage what others have counted in the snapshot already, at
// most all that the runs do not say themselves.
func sparing(u *table.Usage, runs []Run) {
	u.Others = u.Seen.Others()
	if len(u.Others) == 0 {
		return
	}
	var own table.Usage
	for _, r := range runs {
		if r.whole {
			continue // it says nothing but the difference
		}
		addTally(&own, tallyOf(table.Mark{}, false, []Run{r}))
	}
	for i := range u.Counts {
		c := &u.Counts[i]
		said, _ := table.CountOf(own.Counts, c.Limit)
		for j := range u.Others {
			if o := &u.Others[j]; o.Limit == c.Limit {
				both := max(0, min(o.Tokens, c.Tokens-said))
				c.Tokens -= both
				o.Tokens -= both
			}
		}
	}
}
