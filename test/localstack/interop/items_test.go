//go:build interop

package interop

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// The same changes, by Python in one namespace and by ours in another, leave the same items,
// attribute by attribute: entities, limits at every level, registries, namespaces and audit events.
func TestChangesLeaveTheSameItems(t *testing.T) {
	onBothEngines(t, func(w *world) {
		p, ctx := w.python(), w.Context()
		theirs := p.Namespace
		limits := []limiter.Limit{still("rpm", 100), still("tpm", 5000)}
		metadata := kv{"tier": "gold", "seats": 3, "trial": true, "tags": []string{"a"}, "deep": kv{"x": nil}}
		p.call(nil, "create_entity", kv{"entity_id": "org", "name": "Org", "principal": "alice"})
		p.call(nil, "create_entity", kv{
			"entity_id": "acme", "parent_id": "org", "cascade": true, "metadata": metadata, "principal": "alice",
		})
		p.call(nil, "set_system_defaults", kv{"limits": pyLimits(limits...), "principal": "alice"})
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(limits...), "principal": "alice"})
		p.call(nil, "set_limits", kv{"entity_id": "acme", "limits": pyLimits(limits...), "principal": "alice"})
		p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api", "limits": pyLimits(limits...),
			"principal": "alice"})
		p.call(nil, "delete_limits", kv{"entity_id": "acme", "resource": "api", "principal": "alice"})

		tab, err := admin.Open(ctx, w.engine.DynamoDB(), w.table, &admin.Options{Principal: "alice"})
		check.Must(w, err)
		n, err := tab.Register(ctx, "ours")
		check.Must(w, err)
		check.Must(w, check.Err(n.CreateEntity(ctx, admin.Entity{ID: "org", Name: "Org"})))
		_, err = n.CreateEntity(ctx, admin.Entity{ID: "acme", Parent: "org", Cascade: true, Metadata: metadata})
		check.Must(w, err)
		for _, at := range []admin.Scope{{}, {Resource: "api"}, {Entity: "acme"}, {Entity: "acme", Resource: "api"}} {
			check.Must(w, n.SetLimits(ctx, at, limits...))
		}
		check.Must(w, n.DeleteLimits(ctx, admin.Scope{Entity: "acme", Resource: "api"}))

		want, got := w.itemsOf(theirs, namespace), w.itemsOf(n.ID(), "ours")
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if got[key] != want[key] {
				w.Errorf("%s: Python leaves\n%s\nours\n%s", key, want[key], got[key])
			}
		}
		for key := range got {
			if want[key] == "" {
				w.Errorf("%s is only ours: %s", key, got[key])
			}
		}
		if len(want) < 12 {
			w.Errorf("only %d items compared", len(want))
		}
	})
}

// onlyTheirs are attributes that Python 0.17.0 writes but does not need: the parents that an entity
// has had, and the number of its life.
var onlyTheirs = []string{"pgen", "pinc"}

// itemsOf returns all items of a namespace by key. The id and name of the namespace, instants and
// ids of events are replaced by fixed texts.
func (w *world) itemsOf(ns, name string) map[string]string {
	w.Helper()
	list := store.NewListing(w.engine.DynamoDB(), w.table)
	keys := []item.Key{layout.NamespaceKey(name), layout.NamespaceIDKey(ns)}
	for q := config.OfNamespace(ns); ; {
		page, err := list.List(w.Context(), q)
		check.Must(w, err)
		for _, it := range page.Items {
			keys = append(keys, item.KeyOf(it))
		}
		if q.After = page.Next; q.After == nil {
			break
		}
	}
	slices.SortFunc(keys, func(a, b item.Key) int { return strings.Compare(a.PK+a.SK, b.PK+b.SK) })
	out := map[string]string{}
	events := map[string]int{}
	for _, k := range keys {
		items, err := list.Read(w.Context(), true, k)
		check.Must(w, err)
		it := maps.Clone(items[0])
		for _, attr := range onlyTheirs {
			delete(it, attr)
		}
		for _, attr := range []string{"created_at", "timestamp", "ttl", "event_id"} {
			if _, ok := it[attr]; ok {
				it[attr] = item.S("x")
			}
		}
		if strings.HasPrefix(k.SK, layout.SKAuditPrefix) {
			events[k.PK]++ // in order of time
			it[item.AttrSK] = item.N(int64(events[k.PK]))
		}
		text := strings.NewReplacer(ns, "NS", `"`+name+`"`, `"NAME"`, "#"+name+`"`, `#NAME"`).Replace(string(itemtest.JSON(it)))
		key := strings.NewReplacer(ns, "NS", "#"+name, "#NAME").Replace(k.PK + " " + k.SK)
		if events[k.PK] > 0 {
			key = strings.ReplaceAll(k.PK, ns, "NS") + " " + string('0'+rune(events[k.PK]))
		}
		out[key] = text
	}
	return out
}

// The differences are those in docs/python.md, on both sides.
func TestDifferencesFromPython(t *testing.T) {
	withNewer(t, func(w *world) {
		w.open()
		p, ctx := w.python(), w.Context()
		one := limiter.Costs{"rpm": 1}
		level := func(entity string) int64 {
			w.Helper()
			b := w.bucket(entity, "api").State
			return b.Slots[b.Index("rpm")].Tokens / bucket.Milli
		}

		p.call(nil, "create_entity", kv{"entity_id": "org"})
		p.call(nil, "create_entity", kv{"entity_id": "kid", "parent_id": "org", "cascade": true})
		p.call(nil, "set_limits", kv{"entity_id": "kid", "resource": "api", "limits": pyLimits(still("rpm", 9))})
		p.call(nil, "set_limits", kv{"entity_id": "org", "resource": "api", "limits": pyLimits(still("tpm", 9))})
		_, err := w.open().Acquire(ctx, limiter.Request{Entity: "kid", Resource: "api", Costs: one})
		_, raised := p.tryAcquire("kid", "api", one, nil)
		if !errors.Is(err, limiter.ErrInvalid) || raised != nil {
			w.Errorf("a parent without the limit: ours %v, Python %v", err, raised)
		}

		for _, entity := range []string{"py", "go"} {
			w.set(entity, "api", limiter.Quota("rpm", 50, limiter.Monthly(1, "Asia/Tokyo")))
			p.take(entity, "api", limiter.Costs{"rpm": 20})
			p.repository(nil, "top_up", kv{"entity_id": entity, "resource": "api", "amounts": kv{"rpm": 30}})
		}
		p.repository(nil, "reset_bucket", kv{"entity_id": "py", "resource": "api"})
		check.Must(w, check.Err(w.manage().Reset(ctx, "go", "api")))
		if ours, theirs := level("go"), level("py"); ours != 80 || theirs != 50 {
			w.Errorf("a reset after a top-up of 30: ours %d, Python %d", ours, theirs)
		}

		for _, entity := range []string{"py-use", "go-use"} {
			w.set(entity, "api", limiter.Quota("rpm", 5, limiter.FromFirstUse(time.Hour)))
			p.take(entity, "api", one)
		}
		p.repository(nil, "reset_bucket", kv{"entity_id": "py-use", "resource": "api"})
		check.Must(w, check.Err(w.manage().Reset(ctx, "go-use", "api")))
		runs := func(entity string) bool {
			start, _, err := item.Int(w.item(layout.BucketKey(w.ns, entity, "api", 0)), "b_rpm_ws")
			check.Must(w, err)
			return time.Since(time.UnixMilli(start)) < 50*time.Minute
		}
		if !runs("go-use") || runs("py-use") {
			w.Errorf("a reset of a session begins its period: ours %v, Python %v", runs("go-use"), runs("py-use"))
		}

		for _, entity := range []string{"py-off", "go-off"} {
			w.set(entity, "api", still("rpm", 5))
			p.repository(nil, "disable_entity", kv{"entity_id": entity, "resource": "api"})
		}
		p.call(nil, "delete_limits", kv{"entity_id": "py-off", "resource": "api"})
		check.Must(w, w.manage().DeleteLimits(ctx, admin.Scope{Entity: "go-off", Resource: "api"}))
		off := func(entity string) bool {
			_, err := w.open().Acquire(ctx, limiter.Request{Entity: entity, Resource: "api", Costs: one,
				Limits: []limiter.Limit{still("rpm", 5)}})
			return errors.Is(err, limiter.ErrDisabled)
		}
		if !off("go-off") || off("py-off") {
			w.Errorf("limits deleted under a switch: ours off %v, Python off %v", off("go-off"), off("py-off"))
		}
	})
}
