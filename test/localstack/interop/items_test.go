//go:build interop

package interop

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
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
