package limiter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What is given back to a period that is over is not decided by: denials cost no more than without.
func TestLateRefundsDoNotDecide(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.process(Options{SettleWithin: within})
			q := Quota("q", 10, Daily(""))
			lease := must(t, l, asks(Costs{"q": 8}, q))
			w.advance(24 * time.Hour)
			must(t, l, asks(Costs{"q": 10}, q))
			if err := errors.Join(lease.Settle(Costs{"q": 0}), lease.Commit(t.Context())); err != nil {
				t.Fatal(err)
			}
			w.db.ResetStats()
			for range 10 {
				if _, err := l.Acquire(t.Context(), asks(Costs{"q": 5}, q)); !errors.Is(err, ErrLimited) {
					t.Fatal(err)
				}
			}
			if w.db.Stats().WriteUnits > 3 {
				t.Errorf("within %s: 10 denials cost %v writes", within, w.db.Stats().WriteUnits)
			}
		})
	}
}

// A request that waits is woken by what is given back, also if settlements may wait.
func TestSettlingWakesAtOnce(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.process(Options{SettleWithin: within})
			lease := must(t, l, asks(Costs{"rpm": 10}, rpm10))
			begin := time.Now()
			var took time.Duration
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := l.Wait(t.Context(), asks(Costs{"rpm": 8}, rpm10))
				if took = time.Since(begin); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if err := errors.Join(lease.Settle(Costs{"rpm": 1}), lease.Commit(t.Context())); err != nil {
				t.Fatal(err)
			}
			for range 70 {
				w.pass(time.Second)
			}
			wg.Wait()
			if took > time.Second {
				t.Errorf("within %s: it slept for %s", within, took)
			}
		})
	}
}

// Slots go back at once, with what else is settled: other processes may wait for them.
func TestSlotsGoBackAtOnce(t *testing.T) {
	w := newWorld(t)
	req := asks(Costs{"tpm": 500, "jobs": 1}, PerMinute("tpm", 1000), InFlight("jobs", 1, time.Minute))
	for range 2 {
		l := w.process(Options{SettleWithin: time.Minute})
		settled(t, l, req, Costs{"tpm": 400})
		if used := w.used(l, "tpm"); used%400 != 0 {
			t.Errorf("%d are used", used)
		}
	}
}

// What the limiter gives back itself does not wait: a denial by the parent leaves the child as it was.
func TestCompensationDoesNotWait(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			told := 0
			w, l := family(t, 10, Options{SettleWithin: within, Observe: func(_ context.Context, e Event) {
				mu.Lock()
				defer mu.Unlock()
				told += e.Writes
			}})
			must(t, l, asks(Costs{"rpm": 1}))
			other := w.bystander(l)
			rq := asks(Costs{"rpm": 9})
			rq.Entity = "org"
			must(t, other, rq) // the parent is empty now
			w.db.ResetStats()
			mu.Lock()
			told = 0
			mu.Unlock()
			if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 9})); !errors.Is(err, ErrLimited) {
				t.Fatal(err)
			}
			l.desks.Wait()
			mu.Lock()
			if told != int(w.db.Stats().WriteUnits) {
				t.Errorf("told of %d writes, %v were made", told, w.db.Stats().WriteUnits)
			}
			mu.Unlock()
			if u := w.used(l, "rpm"); u != 1 {
				t.Errorf("within %s: the child is charged %d", within, u)
			}
		})
	}
}

// An observer that panics at what was settled alone ends no program.
func TestAnObserverPanicsAtASettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{SettleWithin: time.Second, Observe: only(EventSettle, func(Event) { panic("observer") })})
		settled(t, l, asks(Costs{"rpm": 6}, rpm10), Costs{"rpm": 2})
		w.pass(5 * time.Second)
		synctest.Wait()
		if used := w.used(l, "rpm"); used != 2 {
			t.Errorf("%d are used, want 2", used)
		}
	})
}
