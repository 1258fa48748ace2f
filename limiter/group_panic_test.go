package limiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
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
		w.db.SetHook(onCall(isWrite, 0, func(memdb.Op) (bool, error) { panic("middleware") }))
		if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 9}, req.Limits...)); kindName(err) != "unknown" {
			t.Errorf("got %v, want unknown: nobody knows what became of the write", err)
		}
		if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 9}, req.Limits...)); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	})
}
