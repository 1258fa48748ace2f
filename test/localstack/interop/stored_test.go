//go:build interop

package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// allowed lets Python store what it stores only where its own functions run: the version
// record names them, as that of a deployment that ours comes to.
func (w *world) allowed() {
	w.Helper()
	record := w.item(layout.VersionKey())
	record["lambda_version"] = item.S(newer)
	w.write(item.Put{Item: record})
}

// A deployment of Python has soft limits, cascade policies and a bypass: ours obeys them,
// on buckets that either has made, and keeps them when it changes the limits. Python obeys
// the soft limits that ours stores, on buckets that either has made.
func TestWhatADeploymentOfPythonHasStored(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		if w.release == older {
			return // it has none of this
		}
		w.allowed()
		soft := []kv{{"name": "rpm", "capacity": 3, "refill_amount": 1, "refill_period_seconds": 365 * 86_400, "soft": true}}
		hard := []kv{{"name": "rpm", "capacity": 3, "refill_amount": 1, "refill_period_seconds": 365 * 86_400}}
		one, two := limiter.Costs{"rpm": 1}, limiter.Costs{"rpm": 2}

		p.call(nil, "set_resource_defaults", kv{"resource": "soft", "limits": soft})
		for _, first := range []string{"python", "go"} { // makes the bucket
			for i := range 6 {
				if (i%2 == 0) == (first == "python") {
					p.take(first, "soft", two)
				} else {
					w.take(l, first, "soft", two)
				}
			}
			w.wantLevels("soft, by "+first, first, "soft", levels{"rpm": -9_000})
		}
		lease := w.acquire(l, limiter.Request{Entity: "go", Resource: "soft", Costs: one})
		if over := lease.Overdrawn(); len(over) != 1 || over[0].Remaining != -10 {
			w.Errorf("overdrawn %v", over)
		}

		p.call(nil, "create_entity", kv{"entity_id": "org"})
		p.call(nil, "create_entity", kv{"entity_id": "kid", "parent_id": "org"})
		p.call(nil, "set_resource_defaults", kv{"resource": "shared", "limits": hard})
		on := func(method string, args kv) { p.repository(nil, method, args) }
		on("set_resource_cascade", kv{"resource": "shared", "cascade": true})
		l = w.open()
		w.take(l, "kid", "shared", one)
		p.take("kid", "shared", one)
		w.wantLevels("cascade by policy", "org", "shared", levels{"rpm": 1_000})
		on("set_entity_cascade", kv{"entity_id": "kid", "resource": "shared", "cascade": false})
		w.take(w.open(), "kid", "shared", one)
		w.wantLevels("no cascade by policy of the entity", "org", "shared", levels{"rpm": 1_000})

		on("bypass_resource", kv{"resource": "shared"})
		bypassed := w.acquire(w.open(), limiter.Request{Entity: "kid", Resource: "shared", Costs: limiter.Costs{"rpm": 99}})
		if !errors.Is(bypassed.Cause(), limiter.ErrBypassed) {
			w.Errorf("cause %v, want a bypass", bypassed.Cause())
		}
		ns := w.manage()
		w.must(ns.SetLimits(w.Context(), admin.Scope{Resource: "shared"}, still("rpm", 5)))
		it := w.item(layout.ResourceConfigKey(w.ns, "shared"))
		if !item.Equal(it["disabled"], item.S("bypass")) || !item.Equal(it["cascade"], item.Bool(true)) {
			w.Errorf("after a change of the limits: disabled %v, cascade %v", it["disabled"], it["cascade"])
		}

		w.must(ns.SetLimits(w.Context(), admin.Scope{Resource: "ours"}, still("rpm", 3).AsSoft()))
		l, p = w.open(), w.python()
		for _, first := range []string{"python", "go"} {
			for i := range 4 {
				if (i%2 == 0) == (first == "python") {
					p.take(first, "ours", two)
				} else {
					w.take(l, first, "ours", two)
				}
			}
			w.wantLevels("ours, by "+first, first, "ours", levels{"rpm": -5_000})
		}
		w.must(ns.SetLimits(w.Context(), admin.Scope{Resource: "ours"}, still("rpm", 3)))
		l = w.open()
		w.denied(l, "go", "ours", one)
		if wait := p.denied("go", "ours", one); wait < time.Hour {
			w.Errorf("Python is denied for %v", wait)
		}
	})
}
