package limiter

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What is given back to a period that is over is not decided by: denials cost no more than without.
func TestLateRefundsDoNotDecide(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		inBubble(t, Options{SettleWithin: within}, func(t *testing.T, w *world, l *Limiter) {
			q := Quota("q", 10, Daily(""))
			lease := must(t, l, asks(Costs{"q": 8}, q))
			w.advance(24 * time.Hour)
			must(t, l, asks(Costs{"q": 10}, q))
			fine(t, errors.Join(lease.Settle(Costs{"q": 0}), lease.Commit(t.Context())))
			w.db.ResetStats()
			for range 10 {
				deniedBy(t, l, asks(Costs{"q": 5}, q))
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
		inBubble(t, Options{SettleWithin: within}, func(t *testing.T, w *world, l *Limiter) {
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
			fine(t, errors.Join(lease.Settle(Costs{"rpm": 1}), lease.Commit(t.Context())))
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

// An observer that panics at what was settled alone ends no program.
func TestAnObserverPanicsAtASettlement(t *testing.T) {
	opts := Options{SettleWithin: time.Second, Observe: only(EventSettle, func(Event) { panic("observer") })}
	inBubble(t, opts, func(t *testing.T, w *world, l *Limiter) {
		settled(t, l, asks(Costs{"rpm": 6}, rpm10), Costs{"rpm": 2})
		w.pass(5 * time.Second)
		synctest.Wait()
		if used := w.used(l, "rpm"); used != 2 {
			t.Errorf("%d are used, want 2", used)
		}
	})
}
