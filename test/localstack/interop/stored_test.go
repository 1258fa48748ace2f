//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// allowed lets Python use settings that it stores only with its own functions: the version record
// names them, as after a deployment that our client joins.
func (w *world) allowed() {
	w.Helper()
	record := w.item(layout.VersionKey())
	record["lambda_version"] = item.S(newer)
	w.write(item.Put{Item: record})
}

// Both clients obey soft limits that either stored, on buckets of either, until our client stores a
// hard one. When our client changes the limits, Python's other settings stay.
func TestSoftLimitsOfEither(t *testing.T) {
	withNewer(t, func(w *world) {
		l, p, two := w.open(), w.python(), limiter.Costs{"rpm": 2}
		w.allowed()
		inTurn := func(resource string, n int, left int64) {
			w.Helper()
			for _, first := range []string{"python", "go"} { // creates the bucket
				for i := range n {
					if (i%2 == 0) == (first == "python") {
						p.take(first, resource, two)
					} else {
						w.take(l, first, resource, two)
					}
				}
				w.wantLevels(resource+", by "+first, first, resource, levels{"rpm": left})
			}
		}
		p.call(nil, "set_resource_defaults", kv{"resource": "theirs", "limits": []kv{
			{"name": "rpm", "capacity": 3, "refill_amount": 1, "refill_period_seconds": 365 * 86_400, "soft": true}}})
		inTurn("theirs", 6, -9_000)
		lease := w.acquire(l, limiter.Request{Entity: "go", Resource: "theirs", Costs: limiter.Costs{"rpm": 1}})
		if over := lease.Overdrawn(); len(over) != 1 || over[0].Remaining != -10 {
			w.Errorf("overdrawn %v", over)
		}
		p.repository(nil, "set_resource_cascade", kv{"resource": "theirs", "cascade": true})
		p.repository(nil, "bypass_resource", kv{"resource": "theirs"})
		w.set("", "theirs", still("rpm", 5))
		it := w.item(layout.ResourceConfigKey(w.ns, "theirs"))
		if !item.Equal(it["disabled"], item.S("bypass")) || !item.Equal(it["cascade"], item.Bool(true)) {
			w.Errorf("after a change of the limits: disabled %v, cascade %v", it["disabled"], it["cascade"])
		}

		w.set("", "ours", still("rpm", 3).AsSoft())
		l, p = w.open(), w.python()
		inTurn("ours", 4, -5_000)
		w.set("", "ours", still("rpm", 3))
		w.denied(w.open(), "go", "ours", limiter.Costs{"rpm": 1})
		if wait := p.denied("go", "ours", limiter.Costs{"rpm": 1}); wait < time.Hour {
			w.Errorf("Python is denied for %v", wait)
		}
	})
}
