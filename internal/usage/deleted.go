package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Who deletes an entity, or a namespace, deletes buckets and snapshots. The records of the buckets
// come later: what they show is not counted, or deleted usage would be there again. No snapshot has
// a mark of such a shard, and a note says until when everything is deleted.
//
// An entity is deleted at 14:30. At 14:31 the records of its last requests are counted, and that of
// the removal. There is no snapshot, and the note says 14:30: nothing is counted. It makes requests
// again at 14:40: the record of the creation is seen, and they are counted.

// deletersClock is how far the clock of who deletes may be from the one that dates records, and how
// long after the note the buckets may be removed, milliseconds.
const deletersClock = 60_000

// NoteKeys are the keys of the notes that tell what of the total is deleted.
func (t *Total) NoteKeys() []item.Key {
	return []item.Key{table.DeletionKey(t.Namespace, t.Entity), table.DeletionKey(t.Namespace, "")}
}

// suspects reports whether no snapshot has a mark of some shard, though it was created before the
// first record, or its end is among them.
func (t *Total) suspects(known Snapshots, marks table.Marks) bool {
	return slices.ContainsFunc(t.Chains, func(c Chain) bool { return c.over() > 0 && c.unmarked(known, marks) })
}

// ends reports whether a life begins and ends within some chain.
func (t *Total) ends() bool {
	return slices.ContainsFunc(t.Chains, func(c Chain) bool { return c.Runs[0].Born && c.over() > 0 })
}

func (c *Chain) unmarked(known Snapshots, marks table.Marks) bool {
	_, here := marks.Shard(c.Shard)
	_, _, before := lastMark(known.Previous, c.Shard)
	return !here && !before && c.Follows == 0
}

// over returns how many runs there are before the life that goes on after the chain, if its
// beginning is seen; else all.
func (c *Chain) over() int {
	for i, r := range slices.Backward(c.Runs) {
		if r.Gone {
			return i + 1
		}
		if r.Born {
			return i
		}
	}
	return len(c.Runs)
}

// Forget drops what the notes say is deleted, which are the items at NoteKeys.
func (t *Total) Forget(known Snapshots, notes map[item.Key]item.Item) {
	t.NotesRead = true
	until, marks := int64(0), table.MarksOf(known.Current)
	for _, it := range notes {
		until = max(until, table.DeletedUntil(it))
	}
	var left []Chain
	for _, c := range t.Chains {
		if n := c.over(); n > 0 && c.Oldest <= until+deletersClock && c.unmarked(known, marks) {
			if c.Runs, c.Birth = c.Runs[n:], 0; len(c.Runs) == 0 {
				t.forgotten = append(t.forgotten, c.Shard)
				continue
			}
		}
		left = append(left, c)
	}
	t.Chains = left
}
