//go:build interop

package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Python ignores our raises, of inherited limits too: it creates buckets by the plain limit, and
// takes what a raised bucket holds. After the end, both use the plain limit. Limits stored by
// Python replace the raise.
func TestRaisesBesidePython(t *testing.T) {
	onBothEngines(t, func(w *world) {
		w.open()
		p := w.python()
		one := limiter.Costs{"rpm": 1}
		w.set("", "api", still("rpm", 8))
		raise := func(entity string, until time.Time) {
			w.Helper()
			got, err := w.manage().Raise(w.Context(), entity, "api", limiter.Costs{"rpm": 4}, until)
			if check.Must(w, err); len(got) != 1 { // one in ten years is five, so the capacity is 40
				w.Fatalf("raised by %v", got)
			}
		}
		later := time.Now().Add(time.Hour)
		for oursFirst, want := range map[bool]int{true: 40, false: 8} {
			entity := fmt.Sprintf("first-%v", oursFirst)
			raise(entity, later)
			check.Equal(w, w.tries(oursFirst, entity, one), want, "%s: granted", entity)
			var stored []kv
			p.call(&stored, "get_limits", kv{"entity_id": entity, "resource": "api"})
			check.Equal(w, len(stored), 0, "%s: Python reads limits of its own, %v", entity, stored)
		}
		ends := time.Now().Add(30 * time.Minute)
		raise("ends", ends)
		w.take(w.open(), "ends", "api", one)
		w.advance(ends.Add(1100 * time.Millisecond)) // our limit changes after a second
		check.Equal(w, w.tries(true, "ends", one), 8, "granted behind the end")
		w.advance(time.Now())
		at := admin.Scope{Entity: "first-true", Resource: "api"}
		p.call(nil, "set_limits", kv{"entity_id": at.Entity, "resource": at.Resource,
			"limits": []kv{{"name": "rpm", "capacity": 3, "refill_amount": 1, "refill_period_seconds": 60}}})
		if c, err := w.manage().Config(w.Context(), at); err != nil || c.Raises != nil || len(c.Limits) != 1 {
			w.Errorf("after Python's limits: %+v, %v", c, err)
		}
		if w.release == older {
			return
		}
		w.set("", "api", limiter.Quota("rpm", 8, limiter.Yearly(time.Month(time.Now().AddDate(0, 6, 0).Month()), 1, "")))
		for oursFirst := range map[bool]bool{true: true, false: true} {
			entity := fmt.Sprintf("quota-%v", oursFirst)
			raise(entity, later)
			check.Equal(w, w.tries(oursFirst, entity, one), 12, "%s: granted", entity)
		}
	})
}
