package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Whoever is always raced by others gives up in the end, and is told that.
func TestChangesThatAreAlwaysRaced(t *testing.T) {
	for _, c := range changesWithin() {
		w := newWorld(t)
		c.prepare(w)
		before, tries := w.db.Snapshot(), 0
		w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Name != memdynamo.TransactWriteItems {
				return true, nil
			}
			tries++
			return false, &store.Canceled{Reasons: make([]store.Reason, len(op.Writes))}
		})
		err := c.do(w, t.Context())
		w.db.SetHook(nil)
		if w.wants(err, ErrBusy); tries != callAttempts || w.db.Len() != before.Len() {
			t.Errorf("%s: %d attempts, %d items, before %d", c.name, tries, w.db.Len(), before.Len())
		}
	}
}
