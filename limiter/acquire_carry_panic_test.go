package limiter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// A DynamoDB client that panics does not take the process down, and does not keep
// later calls of the process from moving the bucket's clock.
func TestPanicOfTheClientBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{Timeout: 500 * time.Millisecond})
		req := asks(Costs{"rpm": 10}, PerMinute("rpm", 10))
		must(t, l, req)
		w.advance(59 * time.Second)
		must(t, l, asks(Costs{"rpm": 1}, req.Limits...))
		w.advance(59 * time.Second)
		w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) { panic("middleware") }))
		if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 9}, req.Limits...)); kindName(err) != "unknown" {
			t.Errorf("got %v, want unknown: nobody knows what became of the write", err)
		}
		if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 9}, req.Limits...)); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	})
}

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
