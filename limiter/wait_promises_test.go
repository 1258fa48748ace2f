package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// A denial a moment ago says nothing of a request that waits.
func TestWaitRightAfterADenial(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		w.db.SetHook(nil)
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		req := asks(Costs{"rpm": 1}, rpm10)
		for range 2 {
			deniedBy(t, l, req)
		}
		begin := time.Now()
		w.db.ResetStats()
		if _, err := l.Wait(t.Context(), req); err != nil || time.Since(begin) != 6*time.Second ||
			w.db.Stats().Calls() != 1 {
			t.Errorf("%v after %s, %+v; want the 6s of one token, and one write", err, time.Since(begin), w.db.Stats())
		}
	})
}

// What a charge has taken for a lease that was closed meanwhile is given back.
func TestChargeOnALeaseThatIsClosedMeanwhile(t *testing.T) {
	for name, end := range map[string]func(*Lease, context.Context) error{
		"rollback": (*Lease).Rollback, "commit": (*Lease).Commit,
	} {
		w, l := newProcess(t, Options{})
		lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
		w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) {
			report(t, end(lease, t.Context()))
			return true, nil
		}))
		err := lease.Charge(t.Context(), Costs{"rpm": 3})
		w.db.SetHook(nil)
		want := map[string]int64{"rollback": 0, "commit": 2}[name]
		if got := w.used(l, "rpm"); !errors.Is(err, ErrLeaseClosed) || got != want {
			t.Errorf("%s: %v, %d used, want ErrLeaseClosed and %d", name, err, got, want)
		}
	}
}

// A request that waits for one limit has taken from the other when it asked: that is full
// again when the request begins.
func TestWaitTakesFromAllLimitsAtTheCall(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		w.db.SetHook(nil)
		tps := PerSecond("tps", 10)
		must(t, l, asks(Costs{"rpm": 10}, rpm10, tps))
		lease, after, err := l.Reserve(t.Context(), asks(Costs{"rpm": 1, "tps": 10}, rpm10, tps))
		if err != nil || after != 6*time.Second {
			t.Fatalf("%v, after %s", err, after)
		}
		for _, s := range lease.Status() {
			if s.Limit == "tps" && s.Remaining != 0 {
				t.Errorf("%+v, want none left when it asks", s)
			}
		}
		time.Sleep(after)
		must(t, l, asks(Costs{"tps": 10}, rpm10, tps))
	})
}
