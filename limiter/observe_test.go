package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A request that this process grants by itself is told as such, and why it asked nobody else. Settling its lease
// writes nothing. Of a lease that has charged nothing the end is not told.
func TestGrantsWithoutTheTableAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.observe(t, Options{LocalShare: 50})
		w.down()
		req := asks(Costs{"rpm": 1}, rpm10)
		req.OnUnavailable = PolicyLocal
		lease := must(t, l.Limiter, req)
		l.expect("acquire unavailable map[rpm:1] 0 0s local")
		fine(t, errors.Join(lease.Settle(Costs{"rpm": 3}), lease.Commit(t.Context())))
		l.expect("commit ok map[] 0 0s") // no acquire without an error has told of the share
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("acquire unavailable map[rpm:1] 0 0s local", "rollback ok map[] 0 0s")
		req.OnUnavailable = PolicyAllow
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("breaker open", "acquire unavailable map[rpm:1] 0 0s allow")
		w.db.SetHook(nil)
		w.says(l.Limiter, acme, gpt, "disabled", item.S("bypass"))
		time.Sleep(desk.ProbesEvery)
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("look", "breaker", "acquire ok map[] 0 0s")
	})
}

// A request that a parent denies is not told as granted from what was taken ahead, also if its own entity had
// that.
func TestDenialIsNotReportedAsPrefetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, denied := 0, 0
		w, l := family(t, 60, Options{Ahead: time.Second, Observe: only(EventAcquire, func(e Event) {
			switch {
			case e.Err == nil && e.Ahead:
				ahead++
			case e.Err != nil:
				if denied++; e.Ahead {
					t.Errorf("told %+v", e)
				}
			}
		})})
		w.configure(l, acme, gpt, PerMinute("rpm", 6000))
		w.busy(l, stored(Costs{"rpm": 1}), 200)
		if ahead == 0 || denied == 0 {
			t.Errorf("%d are granted ahead, and %d denied", ahead, denied)
		}
	})
}

// sumOf adds up what the events that tell of no error say of a limit's costs.
func sumOf(limit string, sum *int64) func(context.Context, Event) {
	return func(_ context.Context, e Event) {
		if e.Err == nil {
			*sum += e.Costs[limit]
		}
	}
}

// What events say was taken and given back of slots adds up to nothing once the work is over: also where the
// slots stay for the next requests, and where they were lost.
func TestEventsAddUpWhereSlotsAreKept(t *testing.T) {
	for _, ahead := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, sum := newWorld(t), int64(0)
			l := w.process(Options{Ahead: ahead, Observe: sumOf("jobs", &sum)})
			req := asks(Costs{"jobs": 2}, InFlight("jobs", 20, time.Minute))
			for i := range 10 {
				lease := must(t, l, req)
				if sum != 2 {
					t.Fatalf("ahead %v: %d at work by the events, want 2", ahead, sum)
				}
				end := lease.Commit
				if i%2 == 0 {
					end = lease.Rollback
				}
				if err := end(t.Context()); err != nil || sum != 0 {
					t.Fatalf("ahead %v: %v; %d at work by the events, want none", ahead, err, sum)
				}
			}
			lost := must(t, l, req)
			w.advance(time.Hour)
			if err := lost.Commit(t.Context()); err != nil || sum != 0 {
				t.Errorf("ahead %v: %v; %d at work by the events after the slots were lost", ahead, err, sum)
			}
		})
	}
}

// What the limiter gives back itself was in no acquire that was granted, so it is not in the sum either.
func TestEventsOfRefundsAddUp(t *testing.T) {
	t.Run("another level denies", func(t *testing.T) {
		var sum int64
		w, l := family(t, 5, Options{Observe: sumOf("rpm", &sum)})
		must(t, l, stored(Costs{"rpm": 1}))
		must(t, w.process(Options{}), stored(Costs{"rpm": 4}))
		deniedBy(t, l, stored(Costs{"rpm": 2}))
		if sum != 1 {
			t.Errorf("%d tokens by the events, want 1", sum)
		}
	})
	t.Run("who waits leaves", bubble(func(t *testing.T) {
		w, sum := newWorld(t), int64(0)
		l := w.process(Options{Observe: sumOf("rpm", &sum)})
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := l.Wait(ctx, asks(Costs{"rpm": 5}, rpm10)); !errors.Is(err, ErrCanceled) {
			t.Fatalf("%v, want that it has left", err)
		}
		if sum != 10 {
			t.Errorf("%d tokens by the events, want 10", sum)
		}
	}))
	t.Run("shares of this process", func(t *testing.T) {
		w, sum := newWorld(t), int64(0)
		l := w.process(Options{OnUnavailable: PolicyLocal, LocalShare: 100, Observe: sumOf("rpm", &sum)})
		w.down()
		local := must(t, l, asks(Costs{"rpm": 5}, rpm10))
		if local.Charged() {
			t.Fatal("charged")
		}
		w.db.SetHook(nil)
		if err := local.Charge(t.Context(), Costs{"rpm": 3}); err != nil || sum != 3 {
			t.Fatalf("%v; %d tokens by the events, want 3", err, sum)
		}
		if err := local.Rollback(t.Context()); err != nil || sum != 0 {
			t.Errorf("%v; %d tokens by the events, want none", err, sum)
		}
	})
}
