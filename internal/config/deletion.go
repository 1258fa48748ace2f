package config

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A deleted entity leaves a note behind, and so does a purged namespace. The stream has records of
// their buckets after their usage is gone: without the note, it would be counted again. The note of a
// namespace names no entity, and is not found by namespace, so a purge leaves it alone.
const (
	skDeleted   = "#DELETED"
	attrDeleted = "deleted_until"

	// deletionDays is how long a note stays: for as long as lost usage is made up for, and as long
	// again for records that are replayed.
	deletionDays = 14

	// soundNote is how far in the future, in milliseconds, a note may be: later ones are mistakes.
	soundNote = 24 * 3_600_000
)

// DeletionKey is the key of the note that an entity was deleted, or, without one, all of a namespace.
func DeletionKey(ns, entity string) item.Key {
	return item.Key{PK: layout.EntityPK(ns, entity), SK: skDeleted}
}

// Deleted notes that all consumption up to an instant, epoch milliseconds, is deleted with its
// usage. It is refused if the note there says the same or more, and is sound.
func Deleted(ns, entity string, at int64) item.Update {
	const day = 24 * 3600
	u := item.Update{
		Key: DeletionKey(ns, entity),
		Set: []item.Attr{{Name: attrDeleted, Value: item.N(at)}, {Name: layout.AttrTTL,
			Value: item.N(at/1000 + deletionDays*day)}},
		If: item.Any(item.Absent(attrDeleted), item.Compare(attrDeleted, item.Lt, item.N(at)),
			item.Compare(attrDeleted, item.Gt, item.N(at+soundNote))),
	}
	if entity != "" {
		u = inRegistry(ns, u)
	}
	return u
}

// DeletedUntil returns the instant of a note, 0 for none that is sound.
func DeletedUntil(it item.Item, now int64) int64 {
	at, _, err := item.Int(it, attrDeleted)
	if err != nil || at < 0 || at > bucket.AddSat(now, soundNote) {
		return 0
	}
	return at
}
