package admin

import (
	"context"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A change of the parent leaves a bucket disabled that is disabled meanwhile, also if its process ends with its next
// call: it has no second look then.
func TestAnOldStampUndoesNoOther(t *testing.T) {
	base := newWorld(t)
	base.set(Scope{}, limiter.PerHour("rpm", 80))
	for _, id := range []string{"acme", "boss"} {
		check.Must(t, check.Err(base.ns.CreateEntity(t.Context(), Entity{ID: id})))
	}
	base.take("acme", "gpt-4", limiter.Costs{"rpm": 30})
	raced := 0
	for nth, more := 1, true; more; nth++ {
		w, calls := base.copy(t), 0
		ctx, end := context.WithCancel(t.Context())
		w.db.SetSerialHook(func(memdynamo.Op) (bool, error) {
			if calls++; calls == nth {
				w.db.SetHook(nil)
				check.Must(t, check.Err(w.ns.SetAccess(t.Context(), Scope{Entity: "acme"}, AccessDisabled)))
				w.db.SetHook(func(memdynamo.Op) (bool, error) { end(); return true, nil })
			}
			return true, nil
		})
		_, _ = w.ns.UpdateEntity(ctx, Entity{ID: "acme", Parent: "boss", Cascade: true})
		w.db.SetHook(nil)
		end()
		if more = calls >= nth; !more {
			break
		}
		raced++
		items, err := w.db.Read(t.Context(), true, layout.BucketKey(w.ns.ID(), "acme", "gpt-4", 0))
		check.Must(t, err)
		if items[0]["disabled"] == nil {
			t.Errorf("before call %d: the bucket is enabled again", nth)
		}
	}
	if raced < 5 {
		t.Errorf("the update made %d calls only", raced)
	}
}
