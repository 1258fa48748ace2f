//go:build interop

package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

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
