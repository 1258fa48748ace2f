package admin

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// asIfOf gives an item the keys of the indexes that another item has.
func (w *world) asIfOf(at, of item.Key) {
	w.Helper()
	it, from := w.db.Item(at), w.db.Item(of)
	if it == nil || from == nil {
		w.Fatalf("there is no %v or no %v", at, of)
	}
	for _, attr := range []string{item.AttrGSI1PK, item.AttrGSI1SK, item.AttrGSI2PK, item.AttrGSI2SK,
		item.AttrGSI3PK, item.AttrGSI3SK, item.AttrGSI4PK, item.AttrGSI4SK} {
		if v, ok := from[attr]; ok {
			it[attr] = v
		}
	}
	w.db.Store(it)
}

// oneOfEach stores one item of each kind that an index finds, for an entity, and returns their keys.
func (w *world) oneOfEach(n *Namespace, entity, resource string) (keys []item.Key) {
	w.Helper()
	hour := time.UnixMilli(start).UTC().Format(time.RFC3339)
	_, err := n.CreateEntity(w.Context(), Entity{ID: "parent"})
	if !errors.Is(err, ErrExists) {
		w.must(err)
	}
	_, err = n.CreateEntity(w.Context(), Entity{ID: entity, Parent: "parent"})
	w.must(err)
	w.must(n.SetLimits(w.Context(), Scope{entity, resource}, limiter.PerMinute("rpm", 10)))
	l, err := limiter.Open(w.Context(), twin{DB: w.db}, "t", &limiter.Options{
		Namespace: n.Name(), Timeout: ages, ConfigTTL: -1, Now: func() time.Time { return time.UnixMilli(w.now.Load()) }})
	w.must(err)
	_, err = l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: resource, Costs: limiter.Costs{"rpm": 1}})
	w.must(err)
	s := ledger.Snapshot{Namespace: n.ID(), Entity: entity, Resource: resource, Window: "hourly",
		Part: hour, Start: hour, Counts: map[string]int64{"rpm": 1}}
	w.db.Store(s.Item())
	event := collect(w.T, n.Events(w.Context(), Scope{Entity: entity}, ""))[0]
	return []item.Key{layout.EntityKey(n.ID(), entity), layout.EntityConfigKey(n.ID(), entity, resource),
		layout.BucketKey(n.ID(), entity, resource, 0), s.Key(), layout.AuditKey(n.ID(), layout.EntitySubject(entity),
			event.ID)}
}

// Keys of an index are attributes, which a program that may write in one namespace can set to those of another, or
// of another entity and resource of its own. The other one neither lists the item, nor removes or changes it.
func TestKeysOfAnIndexAreNotTrusted(t *testing.T) {
	for _, within := range []bool{false, true} {
		w, ctx := newWorld(t), t.Context()
		other, err := w.table.Register(ctx, "other")
		if w.must(err); within {
			other = w.ns
		}
		mine, theirs := w.oneOfEach(w.ns, "acme", "api"), w.oneOfEach(other, "umbrella", "other")
		_, err = w.ns.CreateEntity(ctx, Entity{ID: "stray"})
		w.must(err)
		mine, theirs = append(mine, layout.EntityKey(w.ns.id, "stray")), append(theirs, theirs[0])
		var before []item.Item
		for i, k := range mine {
			w.asIfOf(k, theirs[i])
			before = append(before, w.db.Item(k))
		}
		for _, child := range collect(t, other.Children(ctx, "parent")) {
			if child.ID != "umbrella" && (!within || child.Parent != "parent") {
				t.Errorf("children %+v", child)
			}
		}
		if got := collect(t, other.Usage(ctx, UsageQuery{Resource: "other"})); len(got) != 1 || got[0].Entity != "umbrella" {
			t.Errorf("usage %+v", got)
		}
		if got := collect(t, other.entitiesWithLimits(ctx, "other")); !slices.Equal(got, []string{"umbrella"}) {
			t.Errorf("entities with limits %q", got)
		}
		for _, at := range []Scope{{}, {Entity: "umbrella"}, {Resource: "other"}} {
			for _, of := range collect(t, other.bucketsAt(ctx, at)) {
				if of.Entity != "umbrella" && (!within || at != Scope{}) {
					t.Errorf("buckets of %v: %v", at, of)
				}
			}
		}
		for e, err := range other.AllEvents(ctx, time.Time{}, time.Time{}) {
			if w.must(err); !within && e.Scope.Entity == "acme" {
				t.Errorf("event %+v", e)
			}
		}
		_, err = other.DeleteEntity(ctx, "umbrella")
		if w.must(err); !within {
			w.must(w.table.DeleteNamespace(ctx, other.ID()))
			_, err = w.table.PurgeNamespace(ctx, other.ID())
			w.must(err)
		}
		for i, k := range mine {
			if !item.EqualItems(w.db.Item(k), before[i]) {
				t.Errorf("%v was %v and is %v", k, before[i], w.db.Item(k))
			}
		}
	}
}
