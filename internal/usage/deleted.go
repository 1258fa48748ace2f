package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// Deleting an entity or a namespace deletes its buckets and snapshots. The records of the buckets
// arrive later, and must not be counted, or deleted usage would reappear. No snapshot has a mark of
// such a shard, and a note stores the instant before which everything is deleted.
//
// Example: an entity is deleted at 14:30. At 14:31 the records of its last requests and of the
// removal arrive. There is no snapshot, and the note says 14:30: nothing is counted. At 14:40 it
// makes requests again: the record of the creation arrives, and they are counted.

// deletersClock is the greatest difference, in milliseconds, between a deleter's clock and the
// clock that dates records. If the beginning of a life is seen, it is clear whether it began before
// or after the note.
const deletersClock = 10 * 60_000

// NoteKeys returns the keys of the notes about deletions that may concern the total.
func (t *Total) NoteKeys() []item.Key {
	return []item.Key{config.DeletionKey(t.Namespace, t.Entity), config.DeletionKey(t.Namespace, "")}
}

// suspects reports whether the beginning of some chain may be deleted: no snapshot has a mark of
// the shard, although it was created before the first record, or its end is seen too, or it is long
// ago.
func (t *Total) suspects(known Snapshots, marks ledger.Marks) bool {
	return slices.ContainsFunc(t.Chains, func(c Part) bool {
		return (!c.Runs[0].Born || c.ends() || t.Over) && c.unmarked(known, marks)
	})
}

// ends reports whether some chain contains both the beginning and the end of a life.
func (t *Total) ends() bool {
	return slices.ContainsFunc(t.Chains, func(c Part) bool { return c.Runs[0].Born && c.ends() })
}

func (c *Part) ends() bool { return slices.ContainsFunc(c.Runs, func(r Run) bool { return r.Gone }) }

func (c *Part) unmarked(known Snapshots, marks ledger.Marks) bool {
	if _, here := marks.Shard(c.Shard); here || c.Follows != 0 {
		return false
	}
	_, _, before := lastMark(known.Previous, c.Shard)
	return !before
}

// first returns how many runs belong to the first life of the chain.
func (c *Part) first() int {
	for i, r := range c.Runs {
		switch {
		case r.Gone:
			return i + 1
		case r.Born && i > 0:
			return i
		}
	}
	return len(c.Runs)
}

// Forget drops deleted runs, according to the notes, the items at NoteKeys: the first life of each
// chain without a mark, if it is older than a note.
func (t *Total) Forget(known Snapshots, notes map[item.Key]item.Item, now int64) {
	t.NotesRead = true
	until, marks := int64(0), ledger.MarksOf(known.Current)
	for _, it := range notes {
		until = max(until, config.DeletedUntil(it, now))
	}
	var left []Part
	for _, c := range t.Chains {
		since := c.Oldest
		if !c.Runs[0].Born {
			since -= deletersClock
		}
		if until > 0 && since <= until && c.unmarked(known, marks) {
			if c.Runs, c.Birth = c.Runs[c.first():], 0; len(c.Runs) == 0 {
				t.forgotten = append(t.forgotten, c.Shard)
				continue
			}
		}
		left = append(left, c)
	}
	t.Chains = left
}
