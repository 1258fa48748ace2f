package admin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func (w *world) create(e Entity) Entity {
	w.Helper()
	out, err := w.ns.CreateEntity(context.Background(), e)
	w.must(err)
	return out
}

var metadata = map[string]any{
	"tier": "gold", "seats": int64(3), "share": 0.25, "trial": true, "note": nil, "empty": "",
	"tags": []any{"a", int64(1)}, "deep": map[string]any{"x": map[string]any{"y": int64(1)}},
}

// An entity is stored as other clients store it and comes back as it was given.
func TestEntities(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "org"})
	e := w.create(Entity{ID: "acme", Name: "Acme", Parent: "org", Cascade: true, Metadata: metadata})
	got, err := w.ns.Entity(t.Context(), "acme")
	w.must(err)
	if !reflect.DeepEqual(got, e) || !reflect.DeepEqual(got.Metadata, metadata) || got.CreatedAt.UnixMilli() != start {
		t.Errorf("got %+v", got)
	}
	stored, err := config.DecodeEntity(w.db.Item(layout.EntityKey(w.ns.ID(), "acme")))
	if err != nil || !item.EqualItems(stored.Item(), w.db.Item(stored.Key())) {
		t.Errorf("stored %+v, %v", stored, err)
	}
	w.wants(check.Err(w.ns.CreateEntity(t.Context(), Entity{ID: "acme"})), ErrExists)
	if e, err := w.ns.CreateEntity(t.Context(), Entity{ID: "beta"}); err != nil || e.Name != "beta" || e.Metadata != nil {
		t.Errorf("without a name and metadata: %+v, %v", e, err)
	}
	w.advance(time.Hour)
	updated, err := w.ns.UpdateEntity(t.Context(), Entity{ID: "beta", Name: "Beta"})
	w.must(err)
	if e, err := w.ns.Entity(t.Context(), "beta"); err != nil || e.Name != "Beta" || e.CreatedAt.UnixMilli() != start ||
		!reflect.DeepEqual(e, updated) {
		t.Errorf("updated: %+v, %v, returned %+v", e, err, updated)
	}
	w.wants(check.Err(w.ns.Entity(t.Context(), "nobody")), ErrNotFound)
	w.wants(check.Err(w.ns.UpdateEntity(t.Context(), Entity{ID: "nobody"})), ErrNotFound)
	if e := w.events(Scope{Entity: "acme"}); len(e) != 1 || e[0].Action != "entity_created" ||
		e[0].Details["name"] != "Acme" || e[0].Details["parent_id"] != "org" || e[0].Details["cascade"] != true {
		t.Errorf("events %+v", e)
	}
	w.hasNoOrphans()
}

func TestParentsMustBeUsable(t *testing.T) {
	w := newWorld(t)
	parent := func(id, parent string) error {
		_, err := w.ns.UpdateEntity(t.Context(), Entity{ID: id, Parent: parent})
		return err
	}
	w.wants(check.Err(w.ns.CreateEntity(t.Context(), Entity{ID: "a", Parent: "nobody"})), ErrParent)
	w.wants(check.Err(w.ns.CreateEntity(t.Context(), Entity{ID: "a", Parent: "a"})), ErrParent)
	w.create(Entity{ID: "a"})
	w.create(Entity{ID: "b", Parent: "a"})
	w.create(Entity{ID: "c", Parent: "b"})
	for p, circle := range map[string]string{"a": "a -> a", "b": "a -> b -> a", "c": "a -> c -> b -> a"} {
		if err := parent("a", p); !errors.Is(err, ErrParent) || !strings.Contains(err.Error(), "a circle, "+circle+":") {
			t.Errorf("a below %s: %v", p, err)
		}
	}
	w.create(Entity{ID: "d"})
	w.must(parent("a", "d"))
	w.must(parent("a", ""))
	if e, err := w.ns.Entity(t.Context(), "a"); err != nil || e.Parent != "" {
		t.Errorf("a is %+v, %v", e, err)
	}
	got := collect(t, w.ns.Children(t.Context(), "d"))
	check.Equal(t, len(got), 0, "children of d: %v", got)
}

// A parent whose own parent is gone can be used. One below a circle cannot, and the error names the
// circle; nor can one with too many above it, as nobody could look for a circle without end.
func TestParentsOfParents(t *testing.T) {
	w := newWorld(t)
	put := func(id, parent string) {
		w.db.Store(config.Entity{Namespace: w.ns.ID(), ID: id, Parent: parent, CreatedAt: "2026-01-01T00:00:00Z"}.Item())
	}
	put("p", "q")
	put("q", "r")
	put("r", "q")
	_, err := w.ns.CreateEntity(t.Context(), Entity{ID: "a", Parent: "p"})
	if w.wants(err, ErrParent); !strings.Contains(err.Error(), `parent "p": a circle, a -> p -> q -> r -> q`) {
		t.Errorf("below a circle: %v", err)
	}
	put("orphan", "gone")
	w.create(Entity{ID: "a", Parent: "orphan"})
	for i := range maxAncestors + 1 {
		put(fmt.Sprint("p", i), fmt.Sprint("p", i+1))
	}
	_, err = w.ns.CreateEntity(t.Context(), Entity{ID: "b", Parent: "p0"})
	if w.wants(err, ErrParent); !strings.Contains(err.Error(), `parent "p0": more than 32 generations`) {
		t.Errorf("got %v", err)
	}
	w.create(Entity{ID: "b", Parent: fmt.Sprint("p", maxAncestors)})
}

// A move changes the parent only, and whether that pays if there is none.
func TestMoveEntity(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "team"})
	was := w.create(Entity{ID: "acme", Name: "Acme", Parent: "org", Cascade: true, Metadata: metadata})
	w.advance(time.Hour)
	for _, c := range []struct {
		parent string
		pays   bool
	}{{"team", true}, {"team", true}, {"", false}, {"org", false}} {
		want := was
		want.Parent, want.Cascade = c.parent, c.pays
		told, err := w.ns.MoveEntity(t.Context(), "acme", c.parent)
		w.must(err)
		stored, err := w.ns.Entity(t.Context(), "acme")
		w.must(err)
		if !reflect.DeepEqual(told, want) || !reflect.DeepEqual(stored, want) {
			t.Errorf("to %q: told %+v, stored %+v, want %+v", c.parent, told, stored, want)
		}
		for _, parent := range []string{"org", "team"} {
			got := len(collect(t, w.ns.Children(t.Context(), parent)))
			check.Equal(t, got == 1, parent == c.parent, "to %q: %d children of %q", c.parent, got, parent)
		}
	}
	before := w.db.Snapshot()
	for _, c := range []struct {
		id, parent string
		want       error
	}{
		{"nobody", "org", ErrNotFound},
		{"org", "acme", ErrParent}, {"acme", "acme", ErrParent}, {"acme", "nobody", ErrParent},
	} {
		w.wants(check.Err(w.ns.MoveEntity(t.Context(), c.id, c.parent)), c.want)
	}
	for _, it := range w.db.Items() {
		if !item.EqualItems(it, before.Item(item.KeyOf(it))) {
			t.Errorf("%q was written", item.KeyOf(it))
		}
	}
}

// What another client has stored and ours would not accept is moved too, and stays else as it is.
func TestMoveAcceptsForeignEntities(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme"})
	it := w.db.Item(layout.EntityKey(w.ns.ID(), "acme"))
	it["name"] = item.S("two\nlines")
	w.db.Store(it)
	if e, err := w.ns.MoveEntity(t.Context(), "acme", "org"); err != nil || e.Name != "two\nlines" || e.Parent != "org" {
		t.Errorf("%+v, %v", e, err)
	}
	if now := w.db.Item(layout.EntityKey(w.ns.ID(), "acme")); !item.Equal(now["name"], it["name"]) {
		t.Errorf("stored %v", now)
	}
}

// Below a parent that cannot be read, nobody can tell whether there is a circle.
func TestUnreadableParentsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "team", Parent: "org"})
	w.db.Store(spoilt(w.db.Item(layout.EntityKey(w.ns.ID(), "org"))))
	for _, parent := range []string{"org", "team"} {
		_, err := w.ns.CreateEntity(t.Context(), Entity{ID: "acme", Parent: parent})
		if err == nil || errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "ENTITY#org") {
			t.Errorf("below %s: %v", parent, err)
		}
	}
}

// family makes an entity that pays for its parent, with a bucket, and another parent.
func (w *world) family() {
	w.Helper()
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "team"})
	w.create(Entity{ID: "acme", Name: "Acme", Parent: "org", Cascade: true})
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
}

// Limits that change again and again are brought to the buckets a few times only; then the error says so.
func TestReachStopsWhenLimitsKeepChanging(t *testing.T) {
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
			w.wants(err, ErrBusy)
			check.Equal(t, changes, reachAttempts, "%s: after attempts: %v", name, err)
		})
	}
}

// An entity that another program has stored without the time of its creation gets the time of the change.
func TestEntitiesWithoutATimeOfCreation(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "acme"})
	it := w.db.Item(layout.EntityKey(w.ns.ID(), "acme"))
	delete(it, layout.AttrCreatedAt)
	w.db.Store(it)
	want := time.UnixMilli(start).UTC()
	e, err := w.ns.UpdateEntity(t.Context(), Entity{ID: "acme", Name: "Acme"})
	w.must(err)
	check.Equal(t, e.CreatedAt, want, "returned")
	e, err = w.ns.Entity(t.Context(), "acme")
	w.must(err)
	check.Equal(t, e.CreatedAt, want, "stored")
}
