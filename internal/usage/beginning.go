package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// A counter begins at zero when its shard is created. A snapshot gets counts and mark in one write,
// and both expire together: where no snapshot has a mark of a shard, none has counted it. Then the
// old image of its first record shows the consumption in lost records since the creation. It is
// counted in the window of the creation, which the item stores. If a lost record arrives after all,
// it finds the mark there.
//
// A bucket is created at 14:10 and takes 5 tokens, then 2 at 14:20; both records are lost. At 16:05
// another 3 are taken, from 7 to 10: the hour of 14:00 gets 7, the hour of 16:00 gets 3.

// unseen reports whether something was consumed before the first record of the chain,
// and no part before it has counted that.
func (c *Part) unseen() bool {
	return !c.Runs[0].Born && c.Follows == 0 &&
		slices.ContainsFunc(c.Runs[0].From, func(n ledger.Count) bool { return n.Tokens != 0 })
}

// beginnings returns the consumption of shards before their first records, for shards that provably
// no snapshot has counted.
func (t *Total) beginnings(known Snapshots, marks ledger.Marks) (out []Part) {
	if t.BeginningsCounted {
		return nil
	}
	for i := range t.Chains {
		c := &t.Chains[i]
		if !c.begins(marks, t) || !c.unseen() || c.Runs[0].Wide {
			continue
		}
		if _, _, lived := lastMark(known.Previous, c.Shard); lived || !t.uncounted(c, known) {
			continue
		}
		at := justBefore(c.Runs[0])
		at.Born, at.whole = true, true
		out = append(out, Part{
			Bucket: t.Bucket, Shard: c.Shard, Start: c.Birth, Oldest: c.Oldest, Runs: []Run{at},
		})
	}
	return out
}

// uncounted reports whether no snapshot has counted the shard since it was created. It is not known
//
//   - if the time of the creation is not known: another client or an older version made the
//     item, and its counters may be years old;
//   - if the window of the creation ended so long ago that its snapshot may be gone;
//   - if not all snapshots since then were read;
//   - if another aggregator has counted in one of them: it has no marks, or its marks
//     show it;
//   - if a day or month has parts that are no longer there: they have expired, or only days
//     were counted then.
//
// Where an earlier life has left a mark, records lost after it are counted there.
func (t *Total) uncounted(c *Part, known Snapshots) bool {
	if c.Birth == 0 || t.Window.End(c.Birth) <= t.Kept {
		return false
	}
	for _, it := range known.Seen {
		if t.precedes(it, c) {
			return true
		}
		if ledger.IsSum(it) {
			if known.Sure && !hasParts(it, known.Seen, t.Start) {
				return false // else they may only be too new
			}
			continue
		}
		m := ledger.MarksOf(it)
		if _, counted := m.Shard(c.Shard); m.Shared() || counted {
			return false
		}
	}
	return known.Whole
}

// precedes reports whether a snapshot, and so all that come before it by their keys, is of a
// day before the one in which the shard was created; where months are counted, of a month before.
func (t *Total) precedes(it item.Item, c *Part) bool {
	w := Daily
	if t.Window == Monthly {
		w = Monthly
	}
	return item.KeyOf(it).SK < layout.UsageKey(t.Namespace, t.Entity, t.Resource, w.Part(w.Start(c.Birth))).SK
}
