package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/table"
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

// A transaction that is refused because its shards have split, or one is gone, is not sent
// again: its images do not tell what there is. Nor is that of a request which others have
// outrun on single shards before.
func TestARefusedTransactionIsNotAlwaysSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		late  func(w *world, l *Limiter)
		trips int
		gone  bool
	}{
		"split": {late: func(w *world, l *Limiter) {
			if err := w.db.Bare().Transact(t.Context(), "split", table.Split(w.shards(l, acme, gpt)[3], l.now())); err != nil {
				t.Fatal(err)
			}
		}},
		"gone": {late: func(w *world, l *Limiter) { w.db.Delete(table.BucketKey(l.namespace, acme, gpt, 3)) }, gone: true},
		"outrun before": {late: func(w *world, l *Limiter) { // all of a shard is taken, and 45 are left
			s := w.shards(l, acme, gpt)[3].State
			sl := s.Slots[s.Index("rpm")]
			w.edit(l, 3, item.Item{"b_rpm_tk": item.N(sl.Tokens - 15_000), "b_rpm_tc": item.N(sl.Used + 15_000)})
		}, trips: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, l, limit := emptyFour(t)
			w.advance(time.Hour)
			must(t, l, asks(Costs{"rpm": 0}, limit)) // what is known of the limits is fresh
			sent := 0
			l.store.Store = lateWrites{l.store.Store, func() {
				if sent++; sent == 1 {
					c.late(w, l)
				}
			}}
			costs := []table.Cost{{Limit: limit.stored(), Milli: 40_000}}
			me := &acquirer{trips: c.trips, want: known.Want{Namespace: l.namespace, Name: acmeGPT, Costs: costs}}
			lease, err := l.spread(t.Context(), l.desks.of(acmeGPT), me, false, &attempt{})
			if lease != nil || err != nil || sent != 1 {
				t.Errorf("lease %v, %v after %d transactions, want none, after one", lease, err, sent)
			}
			if me.trips != c.trips+2 || !me.lost {
				t.Errorf("it has waited for %d round trips, and others were faster: %v; want %d", me.trips, me.lost, c.trips+2)
			}
			if got := l.desks.of(acmeGPT).Seen(3).Absent; got != c.gone {
				t.Errorf("shard 3 is known to be absent: %v", got)
			}
		})
	}
}

// A request takes from several shards once. If these split or one is gone meanwhile, it does not begin again to
// read them all, but is told to ask again at once.
func TestARequestGathersOnce(t *testing.T) {
	for name, late := range map[string]func(w *world, l *Limiter){
		"split": func(w *world, l *Limiter) {
			if err := w.db.Bare().Transact(t.Context(), "split", table.Split(w.shards(l, acme, gpt)[3], l.now())); err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(w *world, l *Limiter) { w.db.Delete(table.BucketKey(l.namespace, acme, gpt, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			w, l, limit := emptyFour(t)
			w.advance(time.Hour)
			must(t, l, asks(Costs{"rpm": 0}, limit)) // what is known of the limits is fresh
			sent := 0
			l.store.Store = lateWrites{l.store.Store, func() {
				if sent++; sent == 1 {
					late(w, l)
				}
			}}
			_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 40}, limit))
			d, ok := errors.AsType[*LimitError](err)
			if !ok || d.RetryAfter != ms || sent != 1 {
				t.Fatalf("%v after %d transactions, want denied for a moment after one", err, sent)
			}
			l.background.Wait()
			w.advance(d.RetryAfter)
			must(t, l, asks(Costs{"rpm": 40}, limit))
		})
	}
}
