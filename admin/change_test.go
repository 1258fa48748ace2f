package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// The registry of scopes with limits changes when limits come or leave, and not otherwise.
func TestTheRegistryCountsWhatHasLimits(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		entity, resource string
		was, is          bool
		want             int
	}{
		{"acme", "gpt-4", false, true, 1}, {"acme", "gpt-4", true, false, 1}, {"acme", "gpt-4", true, true, 0},
		{"acme", "gpt-4", false, false, 0}, {"", "gpt-4", false, true, 1},
	} {
		got := w.ns.registers(c.was, config.Config{Entity: c.entity, Resource: c.resource}, c.is)
		if len(got) != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Whoever is always raced by others gives up in the end, and is told that.
func TestChangesThatAreAlwaysRaced(t *testing.T) {
	for _, c := range changesWithin() {
		w := newWorld(t)
		c.prepare(w)
		before, tries := w.db.Snapshot(), 0
		w.db.SetSerialHook(func(op memdb.Op) (bool, error) {
			if op.Name != memdb.TransactWriteItems {
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
