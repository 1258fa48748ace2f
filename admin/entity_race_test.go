package admin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// family makes an entity that pays for its parent, with a bucket, and another parent.
func (w *world) family() {
	w.Helper()
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "team"})
	w.create(Entity{ID: "acme", Name: "Acme", Parent: "org", Cascade: true})
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
}

// An entity that changes each time is not moved, and the error says why.
func TestAMoveOfWhatAlwaysChanges(t *testing.T) {
	w := newWorld(t)
	w.family()
	rival := w.rival()
	tries := 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.TransactWriteItems {
			_, err := rival.UpdateEntity(t.Context(), Entity{ID: "acme", Parent: "org", Metadata: map[string]any{"n": tries}})
			w.must(err)
			tries++
		}
		return true, nil
	})
	_, err := w.ns.MoveEntity(t.Context(), "acme", "team")
	w.db.SetHook(nil)
	if w.wants(err, ErrBusy); tries != callAttempts {
		t.Errorf("%d tries", tries)
	}
	if e, err := w.ns.Entity(t.Context(), "acme"); err != nil || e.Parent != "org" {
		t.Errorf("stored %+v, %v", e, err)
	}
}

// Limits that change again and again are brought to the buckets a few times only; then the error says so.
func TestBucketsOfWhatAlwaysChanges(t *testing.T) {
	gpt := Scope{Resource: "gpt-4"}
	for name, c := range map[string]struct {
		do    func(w *world) error
		rival func(ctx context.Context, n *Namespace, again bool) error
	}{
		"access": {func(w *world) error {
			got, err := w.ns.SetAccess(w.Context(), gpt, AccessDisabled)
			if got != (Reached{Buckets: 2, Changed: 2, Failed: 1}) || !errors.Is(err, ErrReach) {
				t.Errorf("%+v, %v", got, err)
			}
			return err
		}, func(ctx context.Context, n *Namespace, again bool) error {
			_, err := n.SetAccess(ctx, gpt, map[bool]Access{true: AccessEnabled, false: AccessDisabled}[again])
			return err
		}},
		"parent": {func(w *world) error { _, err := w.ns.MoveEntity(w.Context(), "acme", "team"); return err },
			func(ctx context.Context, n *Namespace, again bool) error {
				_, err := n.UpdateEntity(ctx, Entity{ID: "acme", Parent: "org", Cascade: again})
				return err
			}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.family()
			rival, key, changes := w.rival(), w.bucket("acme", "gpt-4", 0).Key(), 0
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.UpdateItem && op.Writes[0].Target() == key {
					changes++
					w.must(c.rival(t.Context(), rival, changes%2 == 1))
				}
				return true, nil
			})
			err := c.do(w)
			w.db.SetHook(nil)
			if w.wants(err, ErrBusy); changes != reachAttempts {
				t.Errorf("%s: after %d attempts, want %d: %v", name, changes, reachAttempts, err)
			}
		})
	}
}
