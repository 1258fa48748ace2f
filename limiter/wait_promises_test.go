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

// A request that waits is not woken by one that came after it, though that had read the shards
// before: what it has paid from several shards it only works out.
func TestLaterRequestWakesNobody(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		must(t, l, asks(Costs{"rpm": 0}, rpm10))
		w.split(l, 2)
		for range 2 {
			must(t, l, asks(Costs{"rpm": 5}, rpm10))
		}
		tries, after := waiting(time.Time{}), time.Duration(0)
		w.db.SetHook(onCall(isTransaction, 0, func(memdynamo.Op) (_ bool, err error) {
			for n := 0; n < 3; n++ { // writes of shard 0, of which the last is looked at
				if _, after, err = l.reserve(t.Context(), asks(Costs{"rpm": 1}, rpm10), tries); err != nil {
					t.Error(err)
					return true, nil
				}
				if tries.Owed[0].Image.State.Shard != 0 {
					n--
				}
			}
			return true, nil
		}))
		later, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 8}, rpm10))
		w.db.SetHook(nil)
		if err != nil || len(later.items) != 2 || after == 0 {
			t.Fatalf("%v, %d shards pay, the one before waits for %s", err, len(later.items), after)
		}
		begin, done := time.Now(), make(chan time.Duration)
		go func() {
			l.desks.Sleep(t.Context(), tries.Owed, after)
			done <- time.Since(begin)
		}()
		time.Sleep(time.Second)
		fine(t, later.Rollback(t.Context()))
		if took := <-done; took < after {
			t.Errorf("slept for %s, want the %s that it owed when it came", took, after)
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
