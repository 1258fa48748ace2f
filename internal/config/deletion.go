package config

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A deleted entity leaves a note, and so does a purged namespace. The stream still has records of
// their buckets after their usage is deleted; without the note, they would be counted again. The
// note of a namespace names no entity. It cannot be found by namespace, so a purge does not remove
// it.
const (
	skDeleted   = "#DELETED"
	attrDeleted = "deleted_until"

	// deletionDays is how long a note stays: as long as lost usage is recovered, and as long again
	// for replayed records.
	deletionDays = 14

	// soundNote is how far in the future, in milliseconds, a note may be. Later ones are mistakes.
	soundNote = 24 * 3_600_000
)

// DeletionKey returns the key of the note that an entity was deleted, or without an entity, a whole
// namespace.
func DeletionKey(ns, entity string) item.Key {
	return item.Key{PK: layout.EntityPK(ns, entity), SK: skDeleted}
}

// Deleted records that all consumption up to an instant (epoch milliseconds) is deleted, with its
// usage. It is refused if the existing note is sound and covers at least as much.
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

// DeletedUntil returns the instant of a note, 0 without a sound one.
func DeletedUntil(it item.Item, now int64) int64 {
	at, _, err := item.Int(it, attrDeleted)
	if err != nil || at < 0 || at > bucket.AddSat(now, soundNote) {
		return 0
	}
	return at
}
