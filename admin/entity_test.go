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
	got := w.entity("acme")
	if !reflect.DeepEqual(got, e) || !reflect.DeepEqual(got.Metadata, metadata) || got.CreatedAt.UnixMilli() != start {
		t.Errorf("got %+v", got)
	}
	stored, err := config.DecodeEntity(w.db.Item(layout.EntityKey(w.ns.ID(), "acme")))
	if err != nil || !item.EqualItems(stored.Item(), w.db.Item(stored.Key())) {
		t.Errorf("stored %+v, %v", stored, err)
	}
	w.wants(check.Err(w.ns.CreateEntity(t.Context(), Entity{ID: "acme"})), ErrExists)
	if e := w.create(Entity{ID: "beta"}); e.Name != "beta" || e.Metadata != nil {
		t.Errorf("without a name and metadata: %+v", e)
	}
	w.advance(time.Hour)
	updated, err := w.ns.UpdateEntity(t.Context(), Entity{ID: "beta", Name: "Beta"})
	w.must(err)
	beta := w.entity("beta")
	check.Equal(t, beta.Name, "Beta")
	check.Equal(t, beta.CreatedAt.UnixMilli(), start)
	check.Deep(t, beta, updated, "updated")
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
		w.refused(parent("a", p), ErrParent, "a circle, "+circle+":", "a below %s", p)
	}
	w.create(Entity{ID: "d"})
	w.must(parent("a", "d"))
	w.must(parent("a", ""))
	check.Equal(t, w.entity("a").Parent, "", "the parent of a")
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
	w.refused(err, ErrParent, `parent "p": a circle, a -> p -> q -> r -> q`)
	put("orphan", "gone")
	w.create(Entity{ID: "a", Parent: "orphan"})
	for i := range maxAncestors + 1 {
		put(fmt.Sprint("p", i), fmt.Sprint("p", i+1))
	}
	_, err = w.ns.CreateEntity(t.Context(), Entity{ID: "b", Parent: "p0"})
	w.refused(err, ErrParent, `parent "p0": more than 32 generations`)
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
		moved, err := w.ns.MoveEntity(t.Context(), "acme", c.parent)
		w.must(err)
		check.Deep(t, moved, want, "entity returned by a move to %q", c.parent)
		check.Deep(t, w.entity("acme"), want, "entity stored by a move to %q", c.parent)
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
	e, err := w.ns.MoveEntity(t.Context(), "acme", "org")
	w.must(err)
	check.Equal(t, e.Name, "two\nlines")
	check.Equal(t, e.Parent, "org")
	check.Deep(t, w.db.Item(layout.EntityKey(w.ns.ID(), "acme"))["name"], it["name"], "stored")
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
	check.Equal(t, w.entity("acme").CreatedAt, want, "stored")
}
