package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
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
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				time.Sleep(trip)
				return true, nil
			})
			for range 15 {
				must(t, l, asks(Costs{"rpm": 1}, limit))
			}
			w.advance(50 * time.Second) // what is known of the limits stays so
			w.db.ResetStats()
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				time.Sleep(trip)
				if op.Name == memdynamo.TransactWriteItems { // a token more is taken of each
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
// outrun on single shards before; it is not refused for less than that its tokens are gone.
// What a refusal tells of any shard is known afterwards.
func TestARefusedTransactionIsNotAlwaysSentAgain(t *testing.T) {
	take := func(w *world, l *Limiter, shard int, milli int64) {
		s := w.shards(l, acme, gpt)[shard].State
		sl := s.Slots[s.Index("rpm")]
		w.edit(l, shard, item.Item{"b_rpm_tk": item.N(sl.Tokens - milli), "b_rpm_tc": item.N(sl.Used + milli)})
	}
	for name, c := range map[string]struct {
		late          func(w *world, l *Limiter)
		cost          int64 // in tokens
		trips, sent   int
		gone, granted bool
		left          int64 // what shard 3 is known to hold then, in millitokens
	}{
		"split": {late: func(w *world, l *Limiter) {
			if err := w.db.Bare().Transact(t.Context(), "split", table.Split(w.shards(l, acme, gpt)[3], l.now())); err != nil {
				t.Fatal(err)
			}
		}, cost: 40, sent: 1, left: 7500},
		"gone": {late: func(w *world, l *Limiter) { w.remove(l, 3) }, cost: 40, sent: 1, gone: true},
		"another is gone": {late: func(w *world, l *Limiter) { take(w, l, 3, 5000); w.remove(l, 1) }, cost: 60, sent: 1,
			left: 10_000},
		"outrun": {late: func(w *world, l *Limiter) { take(w, l, 3, 15_000) }, cost: 40, sent: 2, granted: true},
		// all of a shard is taken, and 45 are left
		"outrun before": {late: func(w *world, l *Limiter) { take(w, l, 3, 15_000) },
			cost: 40, trips: 1, sent: 1},
		"outrun before, and enough is left": {late: func(w *world, l *Limiter) { take(w, l, 1, 4000) }, cost: 40, trips: 1,
			sent: 1, granted: true}, // shard 1 pays 10 of 11
	} {
		t.Run(name, func(t *testing.T) {
			w, l, limit := emptyFour(t)
			w.advance(time.Hour)
			must(t, l, asks(Costs{"rpm": 0}, limit)) // what is known of the limits is fresh
			for shard := range 4 {                   // as of now
				w.edit(l, shard, item.Item{"rf": item.N(w.now.Load()), "b_rpm_tk": item.N(15_000)})
			}
			sent := 0
			l.store.Store = lateWrites{l.store.Store, func() {
				if sent++; sent == 1 {
					c.late(w, l)
				}
			}}
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.BatchGetItem && !op.Consistent {
					t.Error("the shards are read as they were")
				}
				return true, nil
			})
			costs := []table.Cost{{Limit: limit.stored(), Milli: c.cost * 1000}}
			me, want := &desk.Attempt{}, decide.Want{Namespace: l.namespace, Name: acmeGPT, Costs: costs}
			for range c.trips {
				me.Waited(false)
			}
			g, err := l.desks.Spread(t.Context(), l.desks.Of(acmeGPT), want, false, me)
			if (g.Parts != nil) != c.granted || err != nil || sent != c.sent {
				t.Errorf("grant %+v, %v after %d transactions, want %v after %d", g, err, sent, c.granted, c.sent)
			}
			trips, lost := c.trips+1+c.sent, true
			if c.granted {
				trips, lost = trips-1, c.sent > 1
			}
			if gotTrips, gotLost := me.Spent(l.desks.Moment()); gotTrips != trips || gotLost != lost {
				t.Errorf("it has waited for %d round trips, and others were faster: %v; want %d and %v", gotTrips, gotLost,
					trips, lost)
			}
			seen := l.desks.Of(acmeGPT).Seen(3)
			if seen.Absent != c.gone {
				t.Errorf("shard 3 is known to be absent: %v", seen.Absent)
			}
			if s := seen.Image.State; !c.gone && s.Slots[s.Index("rpm")].Tokens != c.left {
				t.Errorf("shard 3 is known to hold %d, want %d", s.Slots[s.Index("rpm")].Tokens, c.left)
			}
		})
	}
}

// A transaction that meets another one is sent again a few times, after pauses that double. One whose answer
// is lost is asked for again, and carried out once. If it never is answered, nobody knows what was taken, also
// if the last attempt was not sent.
func TestTransactionsAreSentAgain(t *testing.T) {
	const lost, met, down = store.Unknown, store.Conflict, store.Unavailable
	for _, c := range []struct {
		applied bool // the first
		fails   []store.Kind
		want    string
		sent    int
		pauses  time.Duration // in milliseconds
	}{
		{false, nil, "granted", 1, 0}, {false, []store.Kind{met, met, met}, "granted", 4, 2 + 4 + 8},
		{false, []store.Kind{met, met, met, met}, "unavailable", 4, 2 + 4 + 8},
		{false, []store.Kind{down}, "unavailable", 1, 0},
		{false, []store.Kind{lost}, "granted", 2, 0}, {true, []store.Kind{lost}, "granted", 2, 0},
		{true, []store.Kind{lost, lost, met}, "granted", 4, 2}, {true, []store.Kind{lost, down}, "unknown", 2, 0},
		{false, []store.Kind{lost, lost, down}, "unknown", 3, 0},
		{true, []store.Kind{lost, met, met, met, met}, "unknown", 5, 14},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, l, limit := emptyFour(t)
			w.advance(time.Hour)
			must(t, l, asks(Costs{"rpm": 0}, limit))
			used, sent := w.used(l, "rpm"), 0
			longestPauses(t)
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name != memdynamo.TransactWriteItems {
					return true, nil
				}
				if sent++; sent > len(c.fails) {
					return true, nil
				}
				return c.applied && sent == 1, memdynamo.Fail(c.fails[sent-1])
			})
			begin := time.Now()
			_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 40}, limit))
			took := time.Since(begin).Round(time.Millisecond)
			if kindName(err) != c.want || sent != c.sent || took != c.pauses*time.Millisecond {
				t.Errorf("%v: %v after %d and %s, want %s after %d and %d ms", c.fails, err, sent, took, c.want, c.sent, c.pauses)
			}
			took40 := w.used(l, "rpm")-used == 40
			if want := c.want == "granted" || c.applied; took40 != want {
				t.Errorf("%v: %d are taken, want 40 of it: %v", c.fails, w.used(l, "rpm")-used, want)
			}
		})
	}
}
