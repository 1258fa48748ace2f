package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
)

// Who waits for a slot of the parent gets it when this process gives one back, be it that of another
// child; of several who wait behind children of their own one is let in for each slot, and each in the
// end.
func TestWaitForASlotOfAParent(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		for entity, n := range map[string]int64{"u1": 5, "u2": 5, "u3": 5, "org": 1} {
			e := config.Entity{Namespace: o.ns, ID: entity, CreatedAt: "2026-01-01T00:00:00Z"}
			if entity != "org" {
				e.Parent, e.Cascade = "org", true
			}
			o.db.Store(e.Item())
			limits, err := storedLimits("l", []Limit{InFlight("jobs", n, epoch)})
			fine(t, err)
			o.db.Store(config.Config{Namespace: o.ns, Entity: entity, Resource: gpt, Limits: limits}.Item())
		}
		ask := func(entity string) Request {
			return Request{Entity: entity, Resource: gpt, Costs: Costs{"jobs": 1}}
		}
		held := o.must(w, ask("u1"))
		got := make(chan *Lease, 3)
		for _, entity := range []string{"u1", "u2", "u3"} {
			go func() {
				lease, err := w.Wait(context.Background(), ask(entity))
				if err != nil {
					t.Error(err)
				}
				got <- lease
			}()
			time.Sleep(10 * time.Millisecond)
		}
		for i := range 3 {
			time.Sleep(10*time.Second + time.Duration(i)*707*time.Millisecond)
			freed := time.Now()
			fine(t, held.Commit(context.Background()))
			if held = <-got; time.Since(freed) > 100*time.Millisecond {
				t.Errorf("the slot is taken %v after it was given back", time.Since(freed))
			}
			if len(got) > 0 {
				t.Error("two have the slot")
			}
		}
		report(t, held.Commit(context.Background()))
	})
}
