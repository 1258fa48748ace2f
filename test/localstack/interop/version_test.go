//go:build interop

package interop

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// No Python client of any release touches the table's functions, whoever opens the table first:
// once our client has opened it, the version record names their newest release, or none.
func TestVersionRecordKeepsPythonFromOurFunctions(t *testing.T) {
	steps := map[string][]string{
		"Go first":              {"go", older, newer, "go"},
		"old Python first":      {older, "go", newer, older},
		"new Python first":      {newer, "go", older, newer},
		"old, Go, new, Go, old": {older, "go", newer, "go", older},
	}
	for _, kind := range engines {
		e := engine.ForTest(t, kind)
		for order, clients := range steps {
			w := newWorld(t, e, older, e.Table(t).Name) // any release: each step names its own
			opened := false
			for _, client := range clients {
				if client == "go" {
					w.open()
					opened = true
				} else {
					w.opens(order, client, opened)
				}
				v, err := config.DecodeVersion(w.item(layout.VersionKey()))
				check.Must(w, err)
				if opened && v.Lambda != "" && v.Lambda != newer {
					w.Errorf("%s: after %s the version record names the aggregator's release %q", order, client, v.Lambda)
				}
			}
		}
	}
}

// opens opens a Python client, which must work. Once our client has opened the table, it must call
// no service but DynamoDB.
func (w *world) opens(order, version string, opened bool) {
	w.Helper()
	d := driverFor(w, w.engine, version, 0)
	d.control.taken()
	p, err := tryPython(w, d, w.table, namespace, nil)
	if calls := d.control.taken(); err != nil || opened && len(calls) > 0 {
		w.Errorf("%s: Python %s opens: %v, calls %v", order, version, err, calls)
		return
	}
	p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api", "limits": pyLimits(still("rpm", 1000))})
	p.take("acme", "api", limiter.Costs{"rpm": 1})
}

// A running application of Python 0.17.0 keeps all of its capabilities when our client opens the
// table, on a table of either, however often and in whatever way. Our client obeys what it stores
// afterwards.
func TestOpeningLeavesTheNewerPythonWhole(t *testing.T) {
	withNewer(t, func(w *world) {
		w.open()
		w.keepsAll("a table of ours")

		w = newWorld(w.T, w.engine, newer, w.engine.Table(w.T).Name)
		w.python()
		w.allowed()
		w.keepsAll("a table of Python")
	})
}

// keepsAll makes every call of Python that checks the version record, each time after our client
// has opened the table. Both clients take tokens.
func (w *world) keepsAll(where string) {
	w.Helper()
	lambda := w.item(layout.VersionKey())["lambda_version"]
	p := w.python()
	l := w.open()
	opens := func() {
		l = w.open()
		check.Must(w, w.manage().Configure(w.Context(), admin.Settings{OnUnavailable: new(limiter.PolicyBlock)}))
	}
	on := func(method string, args kv) {
		w.Helper()
		opens()
		p.repository(nil, method, args)
		opens() // our client reads the present settings
	}
	set := func(entity string, more kv) {
		w.Helper()
		limit := kv{"name": "rpm", "capacity": 3, "refill_amount": 0, "refill_period_seconds": 1}
		for name, value := range more {
			limit[name] = value
		}
		opens()
		p.call(nil, "set_limits", kv{"entity_id": entity, "resource": "api", "limits": []kv{limit}})
		opens()
	}
	one := limiter.Costs{"rpm": 1}
	takes := func(entity string, n int) { // both in turn, until nothing is left
		w.Helper()
		for i := range n {
			if i%2 == 0 {
				p.take(entity, "api", one)
			} else {
				w.take(l, entity, "api", one)
			}
		}
		w.denied(l, entity, "api", one)
		p.denied(entity, "api", one)
	}
	daily := kv{"reset_schedule": []kv{{"cron": "0 0 1 1 *", "tz": "Asia/Tokyo"}}}
	topUp := func(entity string) {
		w.Helper()
		on("top_up", kv{"entity_id": entity, "resource": "api", "amounts": kv{"rpm": 2}})
		p = w.python() // without cached denials
		takes(entity, 2)
	}
	set("quota", daily)
	takes("quota", 3)
	topUp("quota")
	set("session", kv{"reset_after": 3600})
	takes("session", 3)
	topUp("session")
	set("soft", kv{"refill_amount": 1, "refill_period_seconds": 365 * 86_400, "soft": true})
	for range 4 {
		p.take("soft", "api", one)
		w.take(l, "soft", "api", one)
	}

	set("free", daily)
	takes("free", 3)
	on("bypass_entity", kv{"entity_id": "free", "resource": "api"})
	lease := w.acquire(l, limiter.Request{Entity: "free", Resource: "api", Costs: one})
	check.Is(w, lease.Cause(), limiter.ErrBypassed, "%s: cause, want a bypass", where)

	p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 100))})
	opens()
	p = w.python()
	for _, entity := range []string{"org", "other"} {
		p.call(nil, "create_entity", kv{"entity_id": entity})
		w.take(l, entity, "api", one)
	}
	p.call(nil, "create_entity", kv{"entity_id": "kid", "parent_id": "org"})
	level := map[string]int64{"org": 99_000, "other": 99_000}
	charges := func(step, parent string) { // charges to the kid by both clients
		w.Helper()
		p.take("kid", "api", one)
		w.take(l, "kid", "api", one)
		if parent != "" {
			level[parent] -= 2_000
		}
		for entity, tokens := range level {
			w.wantLevels(where+", "+step, entity, "api", levels{"rpm": tokens})
		}
	}
	charges("no cascade", "")
	on("set_resource_cascade", kv{"resource": "api", "cascade": true})
	charges("a cascade of the resource", "org")
	on("set_parent", kv{"entity_id": "kid", "parent_id": "other"})
	charges("moved", "other")
	on("set_entity_cascade", kv{"entity_id": "kid", "resource": "api", "cascade": false})
	charges("no cascade of the entity", "")
	on("clear_entity_cascade", kv{"entity_id": "kid", "resource": "api"})
	charges("the entity's is cleared", "other")
	on("clear_resource_cascade", kv{"resource": "api"})
	charges("the resource's is cleared", "")

	now := w.item(layout.VersionKey())["lambda_version"]
	if !item.Equal(now, lambda) || !item.Equal(now, item.S(newer)) {
		w.Errorf("%s: lambda_version was %v, is %v", where, lambda, now)
	}
}
