package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A clock that panics after an answer has come keeps nobody waiting: neither the request that was
// answered nor the one behind it.
func TestAClockThatPanicsAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 12 {
			w := newWorld(t)
			reads, panics := 0, -1
			l := w.process(Options{Ahead: 500 * time.Millisecond, Now: func() time.Time {
				if reads++; reads == panics {
					panic("no clock")
				}
				return w.time()
			}})
			must(t, l, asks(Costs{"rpm": 0}, rpm10))
			panics = reads + n + 1
			func() {
				defer func() { _ = recover() }() // if it panics in the call itself
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := l.Acquire(ctx, asks(Costs{"rpm": 1}, rpm10)); errors.Is(err, ErrCanceled) {
					t.Errorf("panic at the %d. look at the clock: %v", n+1, err)
				}
			}()
			l.desks.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.Acquire(ctx, asks(Costs{"rpm": 1}, rpm10)); err != nil {
				t.Errorf("after a panic at the %d. look at the clock: %v", n+1, err)
			}
			l.desks.Wait()
			reservesNothing(t, l)
		}
	})
}

// An observer that panics when it hears that limits were replaced loses no tokens.
func TestAnObserverThatPanicsOnAYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		panics := 0
		l := w.process(Options{Observe: func(_ context.Context, e Event) {
			if e.Kind == EventYield {
				panics++
				panic("observer")
			}
		}})
		must(t, l, asks(Costs{"rpm": 1}, rpm10))
		must(t, w.bystander(l), asks(Costs{"rpm": 1}, PerMinute("rpm", 20)))
		for range 3 {
			func() {
				defer func() { _ = recover() }()
				lease, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
				if err == nil {
					err = lease.Rollback(t.Context())
				}
				if err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}()
			l.desks.Wait()
		}
		b := w.shards(l, acme, gpt)[0]
		if used := b.State.Slots[b.State.Index("rpm")].Used; used != 2000 || panics == 0 {
			t.Errorf("%d millitokens are used after %d panics, want 2000", used, panics)
		}
		reservesNothing(t, l)
	})
}
