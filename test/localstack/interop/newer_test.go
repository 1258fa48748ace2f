//go:build interop

package interop

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// What only Python 0.17.0 knows. It refuses to store soft limits, quotas from the first
// use and a bypass on a table whose version record names no function of its own, so ours
// never meets them. Schedules it stores, and ours refuses them by name; disabled resources
// it stores, and ours obeys.
func TestWhatOnlyTheNewerPythonKnows(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		if w.release == older {
			return // it has none of this
		}
		limit := func(more kv) []kv {
			out := kv{"name": "rpm", "capacity": 3, "refill_amount": 1, "refill_period_seconds": 365 * 86_400}
			for name, value := range more {
				out[name] = value
			}
			return []kv{out}
		}
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": limit(nil)})
		for name, more := range map[string]kv{"soft": {"soft": true}, "reset": {"refill_amount": 0, "reset_after": 3600}} {
			err := p.try(nil, "set_limits", kv{"entity_id": name, "resource": "api", "limits": limit(more)})
			w.refused(name, err)
		}
		on := func(method string) *pyError {
			args := kv{"client": p.id, "on": "repository", "method": method, "args": kv{"resource": "api"}}
			return p.driver.do(w, nil, "call", args)
		}
		w.refused("bypass", on("bypass_resource"))

		window := limit(kv{"schedule": []kv{{"cron": "* * * * *", "capacity": 1}}})
		p.call(nil, "set_limits", kv{"entity_id": "scheduled", "resource": "api", "limits": window})
		one := limiter.Costs{"rpm": 1}
		_, odd := l.Acquire(w.Context(), limiter.Request{Entity: "scheduled", Resource: "api", Costs: one})
		if !errors.Is(odd, limiter.ErrInvalid) || !strings.Contains(odd.Error(), "l_rpm_sched") {
			w.Errorf("a limit with a schedule: %v, want it refused by name", odd)
		}
		if err := on("disable_resource"); err != nil {
			w.Fatal(err)
		}
		_, err := p.tryAcquire("acme", "api", limiter.Costs{"rpm": 1}, nil)
		if err == nil || err.Type != "ResourceDisabled" {
			w.Errorf("Python acquires from a disabled resource: %v", err)
		}
		_, off := w.open().Acquire(w.Context(), limiter.Request{Entity: "acme", Resource: "api", Costs: one})
		if !errors.Is(off, limiter.ErrDisabled) {
			w.Errorf("ours acquires from a disabled resource: %v", off)
		}
	})
}

// refused checks that Python has not stored something because of the version record.
func (w *world) refused(what string, err *pyError) {
	w.Helper()
	if err == nil || err.Type != "VersionMismatchError" {
		w.Errorf("%s: %v, want it refused for the version record", what, err)
	}
}
