package usage

import (
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// A counter is zero when its shard is created. A snapshot receives counts and mark in one write,
// and both expire together: if no snapshot has a mark of a shard, none has counted it. In that case
// the old image of its first record shows how much the lost records since the creation consumed.
// That is counted in the window of the creation, which the item stores. If a lost record arrives
// after all, the mark there shows that it is counted.
//
// Example: a bucket is created at 14:10 and takes 5 tokens, then 2 at 14:20; both records are lost.
// At 16:05 another 3 are taken, from 7 to 10: the hour of 14:00 gets 7, the hour of 16:00 gets 3.

// unseen reports whether the shard consumed something before the first record of the chain, and no
// earlier part has counted it.
func (c *Part) unseen() bool {
	return !c.Runs[0].Born && c.Follows == 0 &&
		slices.ContainsFunc(c.Runs[0].From, func(n ledger.Count) bool { return n.Tokens != 0 })
}

// beginnings returns the consumption before the first record, for shards that provably no snapshot
// has counted.
func (t *Total) beginnings(known Snapshots, marks ledger.Marks) (out []Part) {
	if t.BeginningsCounted {
		return nil
	}
	certain := sync.OnceValue(func() []ledger.Marks { return t.certain(known) }) // not for each shard
	for i := range t.Chains {
		c := &t.Chains[i]
		if !c.begins(marks, t) || !c.unseen() || c.Runs[0].Wide {
			continue
		}
		if _, _, lived := lastMark(known.Previous, c.Shard); lived || !t.uncounted(c, known, certain) {
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

// uncounted reports whether no snapshot has counted the shard since it was created. It returns
// false if this is uncertain:
//
//   - if the time of the creation is unknown: another client or an older version made the
//     item, and its counters may be years old;
//   - if the window of the creation ended so long ago that its snapshot may be gone;
//   - if not all snapshots since then were read;
//   - if another aggregator has counted in one of them: it has no marks, or its marks
//     show it;
//   - if a day or month lacks some of its parts: they have expired, or only days were counted
//     at that time.
//
// If an earlier life has left a mark, records lost after it are counted there.
func (t *Total) uncounted(c *Part, known Snapshots, certain func() []ledger.Marks) bool {
	if c.Birth == 0 || t.Window.End(c.Birth) <= t.Kept {
		return false
	}
	for i, it := range known.Seen {
		if t.precedes(it, c) {
			return true
		}
		if i == len(certain()) {
			return false
		}
		if _, counted := certain()[i].Shard(c.Shard); counted {
			return false
		}
	}
	return known.Whole
}

// certain returns the marks of the snapshots before the first one that makes the counts uncertain.
// Sums have none.
func (t *Total) certain(known Snapshots) (out []ledger.Marks) {
	for _, it := range known.Seen {
		var m ledger.Marks
		if !ledger.IsSum(it) {
			if m = ledger.MarksOf(it); m.Shared() {
				return out
			}
		} else if known.Sure && !hasParts(it, known.Seen, t.Start) {
			return out // otherwise they may only be too new
		}
		out = append(out, m)
	}
	return out
}

// precedes reports whether a snapshot, and so every snapshot with a smaller key, is of a day before
// the shard was created, or of an earlier month if months are counted.
func (t *Total) precedes(it item.Item, c *Part) bool {
	w := Daily
	if t.Window == Monthly {
		w = Monthly
	}
	return item.KeyOf(it).SK < t.place(w, w.Start(c.Birth)).Key().SK
}
