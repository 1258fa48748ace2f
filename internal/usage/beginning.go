package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A counter begins at zero when its shard is created. Counts and marks are written
// together, and expire together: where no snapshot has a mark of a shard, none has
// counted anything of it. Then what the old image of its first record shows was
// consumed since the creation by records that were lost. It is counted in the window
// of the creation, which the item tells. There its mark is found by a lost record that
// comes after all.
//
// A bucket is created at 14:10 and takes 5 tokens, then 2 at 14:20; both records are
// lost. At 16:05 another 3 are taken, from 7 to 10: the hour of 14:00 gets 7, that of
// 16:00 gets 3.

// creatorsClock is how far the clock of who created an item may be from the one that
// dates records, milliseconds. Nearer to the turn of a window it is not known in which
// of the two the item was created.
const creatorsClock = 10_000

// begun returns the start of the window in which the shard was created that a change
// shows, 0 if that is not known.
func begun(c *stream.Change, finest Window) int64 {
	if c.OldBorn <= 0 || c.OldBorn-creatorsClock/1000 > c.Created/1000 {
		return 0 // nobody says, or its clock was far ahead
	}
	start := finest.Start(c.OldBorn*1000 - creatorsClock)
	if start != finest.Start(c.OldBorn*1000+creatorsClock+999) {
		return 0
	}
	return start
}

// unseen reports whether something was consumed before the first record of the chain
// that no part before it has counted.
func (c *Chain) unseen() bool {
	return !c.Runs[0].Born && c.Closed == 0 &&
		slices.ContainsFunc(c.Runs[0].From, func(n table.Count) bool { return n.Tokens != 0 })
}

// MayBegin reports whether something was consumed before the first records of the total
// that may not be counted yet.
func (t *Total) MayBegin() bool {
	return slices.ContainsFunc(t.Chains, func(c Chain) bool { return c.unseen() && c.Begun != 0 })
}

// beginnings returns what shards have consumed before their first records, of those
// that provably no snapshot has counted.
func (t *Total) beginnings(known Snapshots, marks table.Marks) (out []Part) {
	if !t.Finest || t.Begun || !known.PreviousKnown {
		return nil
	}
	for i := range t.Chains {
		c := &t.Chains[i]
		if !c.begins(marks, t) || !c.unseen() || c.Runs[0].Wide {
			continue
		}
		if _, lived := lastMark(known.Previous, c.Shard); lived || !t.uncounted(c, known) {
			continue
		}
		at := closing(c.Runs[0])
		at.Born, at.whole = true, true
		out = append(out, Part{
			Namespace: t.Namespace, Entity: t.Entity, Resource: t.Resource, Shard: c.Shard, Start: c.Begun,
			Runs: []Run{at},
		})
	}
	return out
}

// uncounted reports whether no snapshot has counted the shard since it was created. It
// is not known
//
//   - if it is not known when that was: another client or an older release made the
//     item, and its counters may be years old;
//   - if the window of the creation ended so long ago that its snapshot may be gone;
//   - if not all snapshots since then were looked through;
//   - if another aggregator has counted in one of them, which has no marks then, or
//     remembers it;
//   - if a longer window has counted the shard, while none of the finest kind has: these
//     are gone, or are a new option.
//
// Where an earlier life has left a mark, what was lost behind that is counted there.
func (t *Total) uncounted(c *Chain, known Snapshots) bool {
	if c.Begun == 0 || t.Window.End(c.Begun) <= t.Kept || !t.unborn(c, known) {
		return false
	}
	for _, it := range known.Seen {
		if t.precedes(it, c) {
			return true
		}
		m := table.MarksOf(it)
		if _, counted := m.Shard(c.Shard); m.Shared() || counted && !t.birth(it, c) {
			return false
		}
	}
	return known.Whole
}

// birth reports whether a snapshot is of a longer window in which the shard was
// created.
func (t *Total) birth(it item.Item, c *Chain) bool {
	return slices.ContainsFunc(longer[t.Window], func(w Window) bool { return item.KeyOf(it) == t.keyOf(w, c.Begun) })
}

// precedes reports whether a snapshot, and so all that come before it by their keys,
// is of a day before the one in which the shard was created.
func (t *Total) precedes(it item.Item, c *Chain) bool {
	return item.KeyOf(it).SK < t.keyOf(Daily, c.Begun).SK
}

// unborn reports whether the longer windows in which the shard was created have not
// counted it, or just this: they are written first, and then the finest snapshot could
// not be.
func (t *Total) unborn(c *Chain, known Snapshots) bool {
	return !slices.ContainsFunc(known.Births, func(it item.Item) bool {
		m := table.MarksOf(it)
		mark, counted := m.Shard(c.Shard)
		return it != nil && t.birth(it, c) && (m.Shared() || counted && mark.At != c.Runs[0].First.Before())
	})
}

// longer are the kinds of windows that are longer than one.
var longer = map[Window][]Window{Hourly: {Daily, Monthly}, Daily: {Monthly}}

// BirthKeys returns the keys of the snapshots of longer windows in which shards of the
// total were created, as far as that is known: none for a longer window itself, to which
// beginnings come by the finest.
func (t *Total) BirthKeys() (out []item.Key) {
	if !t.Finest {
		return nil
	}
	for _, c := range t.Chains {
		for _, w := range longer[t.Window] {
			if k := t.keyOf(w, c.Begun); c.Begun != 0 && !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// keyOf returns the key of the bucket's snapshot of the window that holds an instant.
func (t *Total) keyOf(w Window, ms int64) item.Key {
	return table.UsageKey(t.Namespace, t.Entity, t.Resource, w.Part(w.Start(ms)))
}
