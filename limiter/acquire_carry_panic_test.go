package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// An observer that panics does not close the bucket to this process.
func TestPanicOfTheObserverClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		panics := true
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: func(_ context.Context, e Event) {
			if e.Kind == EventAhead && panics {
				panics = false
				panic("observer")
			}
		}})
		for range 600 {
			_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1}, rps1000))
			if kindName(err) == "denied" {
				t.Fatal(err)
			}
			w.pass(time.Millisecond)
		}
		if panics {
			t.Error("nothing was taken ahead")
		}
		l.desks.Wait()
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
