package limiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
)

// A DynamoDB client that panics, caught further up as servers do, does not keep
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
		w.db.SetHook(onCall(isWrite, 0, func(memdb.Op) (bool, error) { panic("middleware") }))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not pass through")
				}
			}()
			l.Acquire(t.Context(), asks(Costs{"rpm": 9}, req.Limits...))
		}()
		if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 9}, req.Limits...)); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	})
}
