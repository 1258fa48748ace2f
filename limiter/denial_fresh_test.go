package limiter

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// A process that knows nothing is denied on many empty shards after at most two
// writes, with a wait of two hours at most. That of one shard is exact.
func TestFreshProcessIsDeniedAfterTwoWrites(t *testing.T) {
	for _, count := range []int{1, 2, 8, 32} {
		for _, cost := range []int64{1, 7, 640} {
			t.Run(fmt.Sprintf("%d shards, cost %d", count, cost), func(t *testing.T) {
				w, l := newProcess(t, Options{})
				limit := PerHour("rph", 640)
				must(t, l, asks(Costs{"rph": 1}, limit)).Rollback(t.Context())
				w.split(l, count)
				drain(t, l, asks(Costs{"rph": 1}, limit))
				fresh := w.process(Options{})
				w.db.ResetStats()
				_, err := fresh.Acquire(t.Context(), asks(Costs{"rph": cost}, limit))
				writes := w.db.Stats().Calls() - w.db.Stats().Reads
				fresh.desks.Wait()
				d, ok := errors.AsType[*LimitError](err)
				if !ok || writes > 2 {
					t.Fatalf("%v after %d writes, want denied after two", err, writes)
				}
				if d.RetryAfter <= 0 || d.RetryAfter > 2*time.Hour || count == 1 && d.Estimated {
					t.Errorf("denial %+v", d)
				}
				t.Logf("%d writes, %d reads, retry after %s, estimated %v", writes, w.db.Stats().Reads, d.RetryAfter, d.Estimated)
			})
		}
	}
}
