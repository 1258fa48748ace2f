//go:build interop

package interop

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// For names with any characters that both accept, the clients use the same bucket.
func TestNamesOfEntitiesAndResources(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 100))})
		for _, entity := range []string{"a", "user:1@example.com", "1.2-3_4"} {
			for _, resource := range []string{"gpt-4.1-mini", "openai/v1/chat", "x_y"} {
				p.take(entity, resource, limiter.Costs{"rpm": 1})
				w.take(l, entity, resource, limiter.Costs{"rpm": 2})
				p.take(entity, resource, limiter.Costs{"rpm": 3})
				w.wantLevels(entity+" on "+resource, entity, resource, levels{"rpm": 94_000})
			}
		}
	})
}

// Our client serves limits with '-' or '.' in their names on every bucket. Python 0.10.3 fails on
// an existing bucket, or admits without charging if it may, and does not change the bucket. 0.17.0
// uses the same levels.
func TestNamesOfLimits(t *testing.T) {
	costs := limiter.Costs{"in-tok": 10, "out.tok": 1}
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api",
			"limits": pyLimits(still("in-tok", 1000), still("out.tok", 100))})
		w.take(l, "acme", "api", costs)
		w.wantLevels("taken by Go", "acme", "api", levels{"in-tok": 990_000, "out.tok": 99_000})
		if w.release == older {
			w.cannotUse(p, costs)
		} else {
			p.take("acme", "api", costs)
			w.wantLevels("taken by Python", "acme", "api", levels{"in-tok": 980_000, "out.tok": 98_000})
		}
		before := levelsOf(w.bucket("acme", "api"))
		w.take(l, "acme", "api", costs)
		w.wantLevels("taken by Go again", "acme", "api",
			levels{"in-tok": before["in-tok"] - 10_000, "out.tok": before["out.tok"] - 1000})
	})
}

// cannotUse checks that a Python client fails on a bucket. If it may admit nevertheless, it takes
// nothing.
func (w *world) cannotUse(p *python, costs limiter.Costs) {
	w.Helper()
	before := levelsOf(w.bucket("acme", "api"))
	if _, err := p.tryAcquire("acme", "api", costs, nil); err == nil || err.denied() {
		w.Errorf("Python acquires: %v, want it to fail", err)
	}
	lease, err := p.tryAcquire("acme", "api", costs, kv{"on_unavailable": "allow"})
	if err != nil {
		w.Fatalf("Python acquires with on_unavailable=allow: %v, want it admitted for free", err)
	}
	lease.adjust(limiter.Costs{"in-tok": 5})
	lease.commit()
	w.wantLevels("not taken by Python", "acme", "api", before)
}
