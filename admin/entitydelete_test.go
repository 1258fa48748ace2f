package admin

import (
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
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Deleting an entity tells how many items it has removed: its description, limits and
// buckets, here one of each. Without a description, the rest is removed and recorded. An entity that never
// existed leaves no record.
func TestDeletingAnEntityCountsItems(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "acme"})
	w.set(Scope{"acme", "gpt-4"}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	w.removes("acme", 3)
	check.Equal(t, w.db.Item(layout.EntityConfigsKey(w.ns.ID()))["gpt-4"], nil, "the count that is left")
	w.create(Entity{ID: "acme"}) // and nothing else
	w.removes("acme", 1)
	for i, want := range []int64{1, 3} {
		if e := w.events(Scope{Entity: "acme"})[2*i]; e.Action != "entity_deleted" || e.Details["records_deleted"] != want {
			t.Errorf("event %+v, want %d", e, want)
		}
	}
	w.take("stray", "gpt-4", limiter.Costs{"rpm": 1}, rpm10) // it has no description
	for entity, want := range map[string]int{"stray": 1, "nobody": 0} {
		n, err := w.ns.DeleteEntity(t.Context(), entity)
		if w.must(err); n != want || len(w.events(Scope{Entity: entity})) != want {
			t.Errorf("%s: %d removed, %v", entity, n, w.events(Scope{Entity: entity}))
		}
	}
}

// storedOf returns how many items there are of an entity, without what happened to it and the note that
// it was deleted.
func (w *world) storedOf(entity string) (n int) {
	for _, it := range w.db.Items() {
		k := item.KeyOf(it)
		if pk := k.PK; k != config.DeletionKey(w.ns.ID(), entity) &&
			(strings.HasSuffix(pk, "ENTITY#"+entity) || strings.Contains(pk, "BUCKET#"+entity+"#")) {
			n++
		}
	}
	return n
}

// besides returns how many items there are that are not of an entity, its trail or its deletion.
func (w *world) besides(entity string) (n int) {
	for _, it := range w.db.Items() {
		if pk := item.KeyOf(it).PK; !strings.Contains(pk, "#"+entity) {
			n++
		}
	}
	return n
}

// A deletion removes all of an entity but its trail, and corrects the counts. If a call fails, it returns how many
// items it has removed, and the next deletion removes the rest.
func TestFailedDeletionCountsRemovedItems(t *testing.T) {
	for fail, more := 1, true; more; fail++ {
		w := readable(t)
		w.split("acme", "gpt-4", 1)
		all, others, calls := w.storedOf("acme"), w.besides("acme"), 0
		w.failOn(store.Unavailable, false, func(op memdynamo.Op) bool { calls++; return calls >= fail })
		n, err := w.ns.DeleteEntity(t.Context(), "acme")
		w.db.SetHook(nil)
		if left := w.storedOf("acme"); n != all-left || left > 0 && err == nil {
			t.Errorf("call %d fails: %d removed, %d left of %d: %v", fail, n, left, all, err)
		}
		if more = err != nil; more {
			rest, err := w.ns.DeleteEntity(t.Context(), "acme")
			if err != nil || n+rest != all || w.storedOf("acme") != 0 {
				t.Errorf("call %d fails: %d removed, and then %d of %d: %v", fail, n, rest, all, err)
			}
		}
		w.removes("acme", 0)
		if e := w.events(Scope{Entity: "acme"}); e[0].Action != "entity_deleted" || e[1].Action == "entity_deleted" {
			t.Errorf("call %d fails: events %+v", fail, e)
		}
		counts, err := w.ns.resourcesWithEntityLimits(t.Context())
		if err != nil || !maps.Equal(counts, map[string]int{"gpt-4": 1}) || w.besides("acme") != others {
			t.Errorf("call %d fails: counts %v, %v, %d other items, want %d", fail, counts, err, w.besides("acme"), others)
		}
	}
}

// An event that cannot be written is not passed over: nothing else tells that the entity is gone.
func TestDeletionsMustBeRecorded(t *testing.T) {
	w := newWorld(t)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1}, rpm10)
	w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		if op.Name != memdynamo.TransactWriteItems {
			return true, nil
		}
		reasons := make([]store.Reason, len(op.Writes))
		reasons[0].Refused = true
		return false, &store.Canceled{Reasons: reasons}
	})
	n, err := w.ns.DeleteEntity(t.Context(), "acme")
	w.db.SetHook(nil)
	if err == nil || n != 1 {
		t.Errorf("%d removed, %v", n, err)
	}
}

// What of an entity cannot be read goes with the rest.
func TestUnreadableEntitiesAreDeletedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		w := newWorld(t)
		w.create(Entity{ID: "acme"})
		for _, resource := range []string{"a", "b", "c"} {
			w.set(Scope{"acme", resource}, rpm10)
		}
		odd := w.db.Item(layout.EntityConfigKey(w.ns.ID(), "acme", "b"))
		odd["l_rpm_ra"] = item.N(0)
		w.db.Store(odd)
		w.removes("acme", 4)
		if counts, err := w.ns.resourcesWithEntityLimits(t.Context()); err != nil || counts["a"] != 0 || counts["c"] != 0 {
			t.Errorf("counted %v, %v", counts, err)
		}
		for _, it := range w.db.Items() {
			if k := item.KeyOf(it); strings.Contains(k.PK, "ENTITY#acme") && k != config.DeletionKey(w.ns.ID(), "acme") {
				t.Errorf("left: %v", k)
			}
		}
	})
}

// The timeout bounds each request of a deletion, not all requests together, and each counts that succeeds.
func TestDeletionsMayTakeLongerThanARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Timeout = time.Second })
		w.db.PageSize = 0
		for i := range 200 {
			w.snapshot("acme", fmt.Sprint("r", i), "daily", "2023-11-14T00:00:00Z", "2023-11-14", nil)
		}
		requests := 0
		w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.BatchWriteItem {
				time.Sleep(300 * time.Millisecond)
				if requests++; requests == 3 {
					return false, memdynamo.Fail(store.Unavailable)
				}
			}
			return true, nil
		})
		if n, err := w.ns.DeleteEntity(t.Context(), "acme"); n != 50 || err == nil {
			t.Errorf("the third request fails: %d removed, %v", n, err)
		}
		w.removes("acme", 150)
	})
}
