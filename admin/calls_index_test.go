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

// Keys of an index are attributes, which a program that may write in one namespace can set to those of
// another. The other one neither lists the item, nor removes or changes it.
func TestKeysOfAnIndexAreNotTrusted(t *testing.T) {
	w := newWorld(t)
	other, err := w.table.Register(t.Context(), "other")
	w.must(err)
	mine, theirs := w.oneOfEach(w.ns, "acme", "api"), w.oneOfEach(other, "umbrella", "api")
	for i, k := range mine {
		w.asIfOf(k, theirs[i])
	}
	var before []item.Item
	for _, k := range mine {
		before = append(before, w.db.Item(k))
	}

	ctx := t.Context()
	if got := collect(t, other.Children(ctx, "parent")); len(got) != 1 || got[0].ID != "umbrella" {
		t.Errorf("children %+v", got)
	}
	if got := collect(t, other.Usage(ctx, UsageQuery{Resource: "api"})); len(got) != 1 || got[0].Entity != "umbrella" {
		t.Errorf("usage %+v", got)
	}
	if got := collect(t, other.entitiesWithLimits(ctx, "api")); !slices.Equal(got, []string{"umbrella"}) {
		t.Errorf("entities with limits %q", got)
	}
	for _, at := range []Scope{{}, {Entity: "umbrella"}, {Resource: "api"}} {
		if got := collect(t, other.bucketsAt(ctx, at)); len(got) != 1 || got[0].Entity != "umbrella" {
			t.Errorf("buckets of %v: %v", at, got)
		}
	}
	for e, err := range other.AllEvents(ctx, time.Time{}, time.Time{}) {
		w.must(err)
		if e.Scope.Entity == "acme" {
			t.Errorf("event %+v", e)
		}
	}
	if _, err := other.DeleteEntity(ctx, "umbrella"); err != nil {
		t.Error(err)
	}
	w.must(w.table.DeleteNamespace(ctx, "other"))
	if _, err := w.table.PurgeNamespace(ctx, other.ID()); err != nil {
		t.Error(err)
	}
	for i, k := range mine {
		if !slices.EqualFunc(attributes(w.db.Item(k)), attributes(before[i]), func(a, b string) bool { return a == b }) {
			t.Errorf("%v was %v and is %v", k, before[i], w.db.Item(k))
		}
	}
}

// The same holds within a namespace: the keys of another entity or resource are no reason to remove or
// change a bucket, and those of a child do not make one.
func TestKeysOfAnIndexAreNotTrustedForEntities(t *testing.T) {
	w := newWorld(t)
	mine, theirs := w.oneOfEach(w.ns, "acme", "api"), w.oneOfEach(w.ns, "umbrella", "other")
	for i, k := range mine {
		w.asIfOf(k, theirs[i])
	}
	ctx := t.Context()
	stray, err := w.ns.CreateEntity(ctx, Entity{ID: "stray"})
	w.must(err)
	w.asIfOf(layout.EntityKey(w.ns.id, stray.ID), theirs[0])
	for _, child := range collect(t, w.ns.Children(ctx, "parent")) {
		if child.ID == stray.ID {
			t.Errorf("it has no parent, and is listed: %+v", child)
		}
	}
	for _, at := range []Scope{{Entity: "umbrella"}, {Resource: "other"}} {
		if got := collect(t, w.ns.bucketsAt(ctx, at)); len(got) != 1 || got[0].Entity != "umbrella" {
			t.Errorf("buckets of %v: %v", at, got)
		}
	}
	if got := collect(t, w.ns.Usage(ctx, UsageQuery{Resource: "other"})); len(got) != 1 || got[0].Entity != "umbrella" {
		t.Errorf("usage %+v", got)
	}
	if got := collect(t, w.ns.entitiesWithLimits(ctx, "other")); !slices.Equal(got, []string{"umbrella"}) {
		t.Errorf("entities with limits %q", got)
	}
	_, err = w.ns.DeleteEntity(ctx, "umbrella")
	w.must(err)
	for _, k := range mine {
		if w.db.Item(k) == nil {
			t.Errorf("%v is gone", k)
		}
	}
}

func attributes(it item.Item) (out []string) {
	for name := range it {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
