package admin

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
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

// A move keeps what somebody else changes of the entity at the same time, and tells it.
func TestAMoveKeepsWhatIsChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.family()
	w.meanwhile(layout.EntityKey(w.ns.ID(), "acme"), func() {
		_, err := w.ns.UpdateEntity(t.Context(), Entity{ID: "acme", Name: "New", Parent: "org", Metadata: metadata})
		w.must(err)
	})
	told, err := w.ns.MoveEntity(t.Context(), "acme", "team")
	w.must(err)
	stored, err := w.ns.Entity(t.Context(), "acme")
	w.must(err)
	if stored.Parent != "team" || stored.Cascade || stored.Name != "New" || !reflect.DeepEqual(stored, told) {
		t.Errorf("stored %+v, told %+v", stored, told)
	}
	if b := w.bucket("acme", "gpt-4", 0); b.Parent != "team" || b.Cascade {
		t.Errorf("the bucket has parent %q, cascade %v", b.Parent, b.Cascade)
	}
	d := w.events(Scope{Entity: "acme"})[0].Details
	if d["name"] != "New" || d["cascade"] != false || d["parent_id"] != "team" {
		t.Errorf("the event tells %v", d)
	}
}

// An entity that is deleted while it is moved is not found, and not made anew.
func TestAMoveOfWhatIsDeletedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.family()
	w.meanwhile(layout.EntityKey(w.ns.ID(), "acme"), func() {
		_, err := w.ns.DeleteEntity(t.Context(), "acme")
		w.must(err)
	})
	_, err := w.ns.MoveEntity(t.Context(), "acme", "team")
	w.wants(err, ErrNotFound)
	if w.db.Item(layout.EntityKey(w.ns.ID(), "acme")) != nil {
		t.Error("it is there again")
	}
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

// Of two changes of an entity the buckets learn the one that is stored, whoever tells them last.
func TestBucketsLearnTheLatestParent(t *testing.T) {
	for name, change := range map[string]func(w *world) error{
		"update": func(w *world) error {
			_, err := w.ns.UpdateEntity(w.Context(), Entity{ID: "acme", Parent: "team", Cascade: true})
			return err
		},
		"move": func(w *world) error { _, err := w.ns.MoveEntity(w.Context(), "acme", "team"); return err },
	} {
		for _, lost := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.family()
				w.split("acme", "gpt-4", 1)
				rival, moved := w.rival(), false
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					if op.Name == memdynamo.UpdateItem && !moved {
						moved = true
						_, err := rival.MoveEntity(t.Context(), "acme", "")
						if w.must(err); lost { // the first bucket is stamped, and stamped again
							return true, memdynamo.Fail(store.Unknown)
						}
					}
					return true, nil
				})
				w.must(change(w))
				w.db.SetHook(nil)
				for k := range 2 {
					if b := w.bucket("acme", "gpt-4", k); b.Parent != "" || b.Cascade || !moved {
						t.Errorf("%s, lost %v: shard %d has parent %q, cascade %v", name, lost, k, b.Parent, b.Cascade)
					}
				}
			})
		}
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

// An entity that is deleted while its buckets are told is no error.
func TestBucketsOfAnEntityThatIsDeletedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.family()
	rival := w.rival()
	w.before(memdynamo.UpdateItem, func() {
		_, err := rival.DeleteEntity(t.Context(), "acme")
		w.must(err)
	})
	_, err := w.ns.MoveEntity(t.Context(), "acme", "team")
	w.db.SetHook(nil)
	if w.must(err); w.db.Item(layout.BucketKey(w.ns.ID(), "acme", "gpt-4", 0)) != nil {
		t.Error("the bucket is there again")
	}
}

// Limits that are set while an entity is deleted go with it, and with their place in the counts.
func TestLimitsAreSetWhileAnEntityIsDeleted(t *testing.T) {
	at := Scope{"acme", "gpt-4"}
	for query := range 6 {
		for _, fault := range []store.Kind{0, store.Throttled, store.Unknown} {
			w := newWorld(t)
			w.family()
			rival, queries, failed := w.rival(), 0, fault == 0
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.Query {
					if queries++; queries-1 == query {
						w.must(rival.SetLimits(t.Context(), at, rpm20))
					}
				}
				drops := op.Name == memdynamo.TransactWriteItems && op.Writes[0].Target() == w.ns.config(at).Key()
				if drops && !failed {
					failed = true
					return fault == store.Unknown, memdynamo.Fail(fault)
				}
				return true, nil
			})
			_, err := w.ns.DeleteEntity(t.Context(), "acme")
			w.db.SetHook(nil)
			w.must(err)
			counts, err := w.ns.resourcesWithEntityLimits(t.Context())
			is := w.db.Item(w.ns.config(at).Key())
			if w.must(err); counts["gpt-4"] != map[bool]int{true: 0, false: 1}[is == nil] {
				t.Errorf("query %d: counts %v, stored %v", query, counts, is)
			}
		}
	}
}
