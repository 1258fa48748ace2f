package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A namespace is registered once, found, listed, deleted, recovered, and its items
// stay all the while.
func TestLifeOfANamespace(t *testing.T) {
	w := newWorld(t)
	again, err := w.table.Register(t.Context(), "prod")
	if err != nil || again.ID() != w.ns.ID() || again.Name() != "prod" {
		t.Fatalf("registered again: %v, %v", again, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		check.Must(t, check.Err(w.table.Register(t.Context(), name)))
	}
	var names []string
	for _, ns := range collect(t, w.table.Namespaces(t.Context())) {
		names = append(names, ns.Name)
		if ns.Status != NamespaceActive || ns.CreatedAt.UnixMilli() != start || !ns.DeletedAt.IsZero() {
			t.Errorf("%+v", ns)
		}
	}
	check.Equal(t, fmt.Sprint(names), "[a b c prod]", "names %v", names)
	w.set(Scope{}, rpm10)
	w.advance(time.Hour)
	w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
	w.wants(w.table.DeleteNamespace(t.Context(), w.ns.ID()), ErrState)
	w.wants(check.Err(w.table.Namespace(t.Context(), "prod")), limiter.ErrNamespace)
	w.wants(check.Err(w.table.Lookup(t.Context(), "prod")), limiter.ErrNamespace)
	orphans := collect(t, w.table.Orphans(t.Context()))
	if len(orphans) != 1 || orphans[0].ID != w.ns.ID() || orphans[0].Status != NamespaceDeleted ||
		orphans[0].DeletedAt.UnixMilli() != w.now.Load() {
		t.Fatalf("orphans %+v", orphans)
	}
	back, err := w.table.RecoverNamespace(t.Context(), w.ns.ID())
	if err != nil || back.ID() != w.ns.ID() || back.Name() != "prod" {
		t.Fatalf("recovered %v, %v", back, err)
	}
	if c, err := back.Config(t.Context(), Scope{}); err != nil || len(c.Limits) != 1 {
		t.Fatalf("limits %+v, %v", c, err)
	}
	info, err := w.table.Lookup(t.Context(), "prod")
	if err != nil || info.Status != NamespaceActive || !info.DeletedAt.IsZero() {
		t.Fatalf("%+v, %v", info, err)
	}
	w.hasNoOrphans()
}

// Whoever has registered a namespace, and cannot read it back, does not know whether it is theirs. Whoever
// could not look it up before has registered nothing.
func TestRegisteringWithoutAnAnswer(t *testing.T) {
	w := newWorld(t)
	registered := false
	w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.TransactWriteItems {
			registered = true
		} else if registered {
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
	_, err := w.table.Register(t.Context(), "new")
	if !registered || !errors.Is(err, limiter.ErrUnknown) ||
		!strings.Contains(err.Error(), `"new": Register: unknown: `) {
		t.Errorf("registered, and not read back: %v", err)
	}
	_, err = w.table.Register(t.Context(), "other")
	if !errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, limiter.ErrUnknown) {
		t.Errorf("not looked up: %v", err)
	}
	w.db.SetHook(nil)
	check.NoError(t, check.Err(w.table.Namespace(t.Context(), "new")))
}

// A namespace that is deleted is the one that was meant, and not the one that has got its name since.
func TestDeletingANamespaceWhoseNameIsGivenAway(t *testing.T) {
	w := newWorld(t)
	var other *Namespace
	w.before(memdynamo.TransactWriteItems, 1, func() {
		w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
		var err error
		other, err = w.table.Register(t.Context(), "prod")
		w.must(err)
	})
	w.wants(w.table.DeleteNamespace(t.Context(), w.ns.ID()), ErrState)
	w.wants(w.table.DeleteNamespace(t.Context(), "nobody"), limiter.ErrNamespace)
	if found, err := w.table.Namespace(t.Context(), "prod"); err != nil || found.ID() != other.ID() {
		t.Fatalf("found %+v, %v", found, err)
	}
	w.must(w.table.DeleteNamespace(t.Context(), other.ID()))
	w.wants(check.Err(w.table.Namespace(t.Context(), "prod")), limiter.ErrNamespace)
	w.wants(w.table.DeleteNamespace(t.Context(), other.ID()), ErrState)
}

func TestNamespacesInTheWrongState(t *testing.T) {
	w := newWorld(t)
	w.wants(check.Err(w.table.RecoverNamespace(t.Context(), "nobody")), limiter.ErrNamespace)
	_, err := w.table.RecoverNamespace(t.Context(), w.ns.ID())
	w.wants(err, ErrState) // active
	w.wants(check.Err(w.table.PurgeNamespace(t.Context(), w.ns.ID())), ErrState)
	w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
	fresh, err := w.table.Register(t.Context(), "prod")
	if err != nil || fresh.ID() == w.ns.ID() {
		t.Fatalf("a name that is free again: %v, %v", fresh, err)
	}
	_, err = w.table.RecoverNamespace(t.Context(), w.ns.ID())
	w.refused(err, ErrState, `"prod": a namespace with this name is active`)
}

// fill puts everything that a namespace can hold into it, foreign items included.
func (w *world) fill() {
	w.set(Scope{}, rpm10)
	w.set(Scope{Resource: "gpt-4"}, rpm10)
	w.set(Scope{"acme", "gpt-4"}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org"})
	w.split("acme", "gpt-4", 2)
	w.db.Store(ledger.Snapshot{
		Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4", Window: "hourly", Start: "2024-01-01T00:00:00Z",
		Part: "2024-01-01T00:00:00Z",
	}.Item())
	// What the Python provisioner leaves cannot be found by namespace.
	p := config.Provisioner{Namespace: w.ns.ID(), Resources: []string{"hidden"},
		Entities: map[string][]string{"x": {"hidden"}}}.Item()
	delete(p, item.AttrGSI4SK)
	w.db.Store(p)
	for _, c := range []config.Config{{Resource: "hidden"}, {Entity: "x", Resource: "hidden"}} {
		c.Namespace = w.ns.ID()
		it := c.Item()
		delete(it, item.AttrGSI4SK)
		delete(it, item.AttrGSI3PK)
		w.db.Store(it)
	}
}

// A purge removes everything of the namespace and nothing else, and can be taken up again.
func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other, err := w.table.Register(t.Context(), "other")
		w.must(err)
		w.must(other.SetLimits(t.Context(), Scope{Resource: "gpt-4"}, rpm10))
		kept := w.db.Len() - 2 // without the names of the purged one
		w.fill()
		w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
		calls := 0
		w.failOn(store.Unavailable, false, func(memdynamo.Op) bool { calls++; return calls > 5 })
		w.wants(check.Err(w.table.PurgeNamespace(t.Context(), w.ns.ID())), limiter.ErrUnavailable)
		w.db.SetHook(nil)
		if all := collect(t, w.table.Orphans(t.Context())); len(all) != 1 || all[0].Status != NamespacePurging {
			t.Errorf("while it is purged: %+v", all)
		}
		_, err = w.table.RecoverNamespace(t.Context(), w.ns.ID())
		w.refused(err, ErrState, `recover namespace "prod": it is being purged`)
		w.must(check.Err(w.table.PurgeNamespace(t.Context(), w.ns.ID())))
		w.forgetNote(t)
		for _, it := range w.db.Items() {
			if strings.HasPrefix(item.KeyOf(it).PK, w.ns.ID()) {
				t.Errorf("%q is left", item.KeyOf(it))
			}
		}
		if n := len(collect(t, w.table.Orphans(t.Context()))); n != 0 || w.db.Len() != kept {
			t.Errorf("%d orphans, %d items, want %d", n, w.db.Len(), kept)
		}
	})
}

// forgetNote removes the note that a purge leaves behind for two weeks, which names nothing but the
// namespace's id.
func (w *world) forgetNote(t *testing.T) {
	t.Helper()
	it := w.db.Item(config.DeletionKey(w.ns.ID(), ""))
	if until := config.DeletedUntil(it, start); until != w.now.Load() || len(it) != 4 || !item.Equal(it[layout.AttrTTL],
		item.N(until/1000+14*86_400)) {
		t.Errorf("the note says %v", it)
	}
	w.db.Delete(item.KeyOf(it))
}

// What a client that has not noticed writes during and after a purge is removed
// too, now or by another purge with the same id.
func TestPurgeFindsLatecomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill()
		late := func(i int) {
			w.db.Store(config.Entity{Namespace: w.ns.ID(), ID: fmt.Sprint("late", i), CreatedAt: "2024-01-01T00:00:00Z"}.Item())
		}
		w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
		queries := 0
		w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.Query && op.Query.Index != "" {
				if queries++; queries < 20 {
					late(queries)
				}
			}
			return true, nil
		})
		w.must(check.Err(w.table.PurgeNamespace(t.Context(), w.ns.ID())))
		w.db.SetHook(nil)
		late(100)
		n, err := w.table.PurgeNamespace(t.Context(), w.ns.ID())
		w.must(err)
		check.Equal(t, n, 1, "removed")
		w.forgetNote(t)
		check.Equal(t, w.db.Len(), 1, "items left, want the version record")
	})
}

// The forward record that a crashed deletion of another client has removed can be
// given back.
func TestHalfDeletedNamespacesAreRecovered(t *testing.T) {
	w := newWorld(t)
	w.db.Delete(layout.NamespaceKey("prod"))
	orphans := collect(t, w.table.Orphans(t.Context()))
	if len(orphans) != 1 || orphans[0].Status != NamespaceActive {
		t.Fatalf("orphans %+v", orphans)
	}
	check.Must(t, check.Err(w.table.RecoverNamespace(t.Context(), orphans[0].ID)))
	if ns, err := w.table.Namespace(t.Context(), "prod"); err != nil || ns.ID() != w.ns.ID() {
		t.Fatal(ns, err)
	}
}

func TestOpenChecksTheTable(t *testing.T) {
	w := newWorld(t)
	version := func() Version {
		v, err := w.table.Version(t.Context())
		w.must(err)
		return v
	}
	want := Version{Schema: "0.9.0", ClientMin: "0.0.0", Lambda: "0.17.0", UpdatedAt: time.UnixMilli(start).UTC()}
	check.Equal(t, version(), want)
	it := w.db.Item(layout.VersionKey())
	it["lambda_version"], it["updated_by"] = item.S("0.9.1"), item.S("bob")
	w.db.Store(it)
	want.Lambda, want.UpdatedBy = "0.9.1", "bob"
	check.Equal(t, version(), want)
	w.db.Delete(layout.VersionKey())
	w.wants(check.Err(w.table.Version(t.Context())), ErrNotFound)
	w.db.Store(config.Version{Schema: "1.0.0", ClientMin: "0.0.0"}.Item())
	before := w.db.Len()
	w.wants(check.Err(open(t.Context(), w.db, nil)), limiter.ErrVersion)
	w.wants(check.Err(w.table.Register(t.Context(), "new")), limiter.ErrVersion)
	check.Equal(t, w.db.Len(), before, "an incompatible table was written to")
}

// A purge looks until nothing was there twice, a moment apart: an index shows some items only after a moment.
func TestPurgeLooksTwice(t *testing.T) {
	for name, fill := range map[string]func(w *world){"empty": func(*world) {}, "full": (*world).fill} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.db.PageSize = 1000
			fill(w)
			w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
			begin := time.Now()
			time.AfterFunc(indexLag/2, func() {
				w.db.Store(config.Entity{Namespace: w.ns.ID(), ID: "late", CreatedAt: "2024-01-01T00:00:00Z"}.Item())
			})
			_, err := w.table.PurgeNamespace(t.Context(), w.ns.ID())
			w.forgetNote(t)
			if took := time.Since(begin); err != nil || w.db.Len() != 1 || took != 2*indexLag {
				t.Errorf("%s: %d items are left after %v, %v", name, w.db.Len(), took, err)
			}
		})
	}
}

// A purge that is called off stops, at a call and while it waits for the index.
func TestPurgeEndsWithItsContext(t *testing.T) {
	for name, fill := range map[string]func(w *world){"waits": func(*world) {}, "removes": (*world).fill} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			fill(w)
			w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
			ctx, cancel := context.WithCancel(t.Context())
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.BatchWriteItem {
					cancel()
				}
				return true, nil
			})
			begin := time.Now()
			time.AfterFunc(indexLag/2, cancel)
			_, err := w.table.PurgeNamespace(ctx, w.ns.ID())
			if w.wants(err, context.Canceled); time.Since(begin) > indexLag/2 ||
				!strings.Contains(err.Error(), `purge namespace "prod"`) {
				t.Errorf("%s: after %s: %v", name, time.Since(begin), err)
			}
		})
	}
}

// A namespace with a name is not purged because its other record is missing.
func TestPurgeSparesWhatHasAName(t *testing.T) {
	w := newWorld(t)
	w.db.Delete(layout.NamespaceIDKey(w.ns.ID()))
	before := w.db.Len()
	w.wants(check.Err(w.table.PurgeNamespace(t.Context(), w.ns.ID())), ErrState)
	check.Equal(t, w.db.Len(), before, "something was removed")
}

// A namespace whose record by its ID is gone, or says that it is deleted, cannot be deleted.
func TestDeleteOfHalfANamespace(t *testing.T) {
	w := newWorld(t)
	half := maps.Clone(w.db.Item(layout.NamespaceIDKey(w.ns.ID())))
	w.db.Delete(layout.NamespaceIDKey(w.ns.ID()))
	w.wants(w.table.DeleteNamespace(t.Context(), w.ns.ID()), limiter.ErrNamespace)
	half["status"] = item.S(config.NamespaceDeleted)
	w.db.Store(half)
	err := w.table.DeleteNamespace(t.Context(), w.ns.ID())
	w.refused(err, ErrState, "says that it is not active")
}
