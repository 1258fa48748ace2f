package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
)

// A request that is larger than a shard's share, and that others are faster than each time, is
// denied after three round trips, too: it reads all shards, and sends two transactions. One
// whose caller would not wait for the second is denied by the first.
func TestDenialOfALargeRequestTakesThreeRoundTrips(t *testing.T) {
	const trip = 150 * time.Millisecond
	for _, c := range []struct {
		deadline     time.Duration // zero: none
		took         time.Duration
		reads, trans int
	}{{0, 3 * trip, 1, 2}, {2 * time.Second, 3 * trip, 1, 2}, {500 * time.Millisecond, 2 * trip, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			w, l, limit := emptyFour(t)
			w.advance(time.Hour)
			w.db.SetHook(func(op memdb.Op) (bool, error) {
				time.Sleep(trip)
				return true, nil
			})
			for range tripsKept {
				must(t, l, asks(Costs{"rpm": 1}, limit))
			}
			w.advance(50 * time.Second) // what is known of the limits stays so
			w.db.ResetStats()
			w.db.SetHook(func(op memdb.Op) (bool, error) {
				time.Sleep(trip)
				if op.Name == memdb.TransactWriteItems { // a token more is taken of each
					for shard := range 4 {
						b := w.shards(l, acme, gpt)[shard]
						sl := b.State.Slots[b.State.Index("rpm")]
						w.edit(l, shard, item.Item{"b_rpm_tk": item.N(sl.Tokens - 1000), "b_rpm_tc": item.N(sl.Used + 1000)})
					}
					return false, w.refusedNow(op)
				}
				return true, nil
			})
			ctx, begin := t.Context(), time.Now()
			if c.deadline > 0 {
				within, cancel := context.WithTimeout(ctx, c.deadline)
				defer cancel()
				ctx = within
			}
			_, err := l.Acquire(ctx, asks(Costs{"rpm": 40}, limit))
			denied, ok := errors.AsType[*LimitError](err)
			if !ok || !denied.Estimated || errors.Is(err, ErrCanceled) || ctx.Err() != nil {
				t.Errorf("within %s: %v, want denied with an estimate", c.deadline, err)
			}
			s, took := w.db.Stats(), time.Since(begin)
			if took != c.took || s.Reads != c.reads || s.Transactions != c.trans || s.Updates > 0 {
				t.Errorf("within %s: denied after %s and %+v, want %+v", c.deadline, took, s, c)
			}
			atRest(t, l)
		})
	}
}
