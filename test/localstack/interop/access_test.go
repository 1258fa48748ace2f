//go:build interop

package interop

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// What ours disables or enables holds for Python at once, on buckets that either has made, and
// what Python disables holds for ours and is enabled by ours, and the other way round.
func TestDisabledByEither(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		if w.release == older {
			return // it has none of this
		}
		ns, err := w.admin().Register(w.Context(), namespace)
		if err != nil {
			w.Fatal(err)
		}
		limits := []kv{{"name": "rpm", "capacity": 100, "refill_amount": 1, "refill_period_seconds": 365 * 86_400}}
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": limits})
		one, makers := limiter.Costs{"rpm": 1}, []string{"python", "go"}
		p.take("python", "api", one)
		p.take("python", "api", one) // by its fast path
		w.take(l, "go", "api", one)
		served := func(what string, want ...string) {
			w.Helper()
			for i, entity := range makers {
				_, err := p.tryAcquire(entity, "api", one, nil)
				if off := err != nil && err.Type == "ResourceDisabled"; err != nil && !off || off != (want[i] == "off") {
					w.Errorf("%s: Python takes from the bucket of %s: %v, want it %s", what, entity, err, want[i])
				}
				_, ours := w.open().Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "api", Costs: one})
				if off := errors.Is(ours, limiter.ErrDisabled); ours != nil && !off || off != (want[i] == "off") {
					w.Errorf("%s: ours takes from the bucket of %s: %v, want it %s", what, entity, ours, want[i])
				}
			}
		}
		api, python := admin.Scope{Resource: "api"}, admin.Scope{Entity: "python", Resource: "api"}
		set := func(at admin.Scope, a admin.Access) {
			w.Helper()
			if _, err := ns.SetAccess(w.Context(), at, a); err != nil {
				w.Fatal(err)
			}
		}
		on := func(method string, args kv) { w.Helper(); p.repository(nil, method, args) }
		set(api, admin.AccessDisabled)
		served("disabled by ours", "off", "off")
		set(python, admin.AccessEnabled)
		served("one enabled by ours", "on", "off")
		on("enable_resource", kv{"resource": "api"})
		served("enabled by Python", "on", "on")
		on("disable_entity", kv{"entity_id": "python", "resource": "api"})
		served("one disabled by Python", "off", "on")
		if a, err := ns.Access(w.Context(), python); err != nil || a != admin.AccessDisabled {
			w.Errorf("ours shows %s, %v", a, err)
		}
		set(python, admin.AccessInherited)
		on("disable_resource", kv{"resource": "api"})
		served("disabled by Python", "off", "off")
		set(api, admin.AccessInherited)
		served("as before", "on", "on")
	})
}
