package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// lateWrites is a table that transactions reach late: late is called before each.
type lateWrites struct {
	store.Store
	late func()
}

func (s lateWrites) Transact(ctx context.Context, token string, writes []item.Write) error {
	s.late()
	return s.Store.Transact(ctx, token, writes)
}

// When full shards pay together, no refill is lost, even if others take from them while the
// transaction is under way: of 600 requests others take 60, and two seconds later that shard has
// got 10 back. Two are taken from 550, with more tokens than a shard has. The shards are read once.
// A request that collides every time is still granted.
func TestPaymentFromManyShardsLosesNoRefill(t *testing.T) {
	rpm, tpm := PerMinute("rpm", 600), PerMinute("tpm", 600)
	for _, late := range []int{1, 100} {
		w := newWorld(t)
		other := w.process(Options{})
		must(t, other, asks(Costs{"rpm": 1}, rpm, tpm))
		w.split(other, 2)
		w.advance(time.Hour)
		l, sent := w.process(Options{}), 0
		must(t, l, asks(Costs{"tpm": 400}, rpm, tpm)).Rollback(t.Context()) // reads both shards
		w.advance(time.Hour)
		l.store.Store = lateWrites{l.store.Store, func() {
			if sent++; sent <= late {
				must(t, other, asks(Costs{"rpm": 60}, rpm, tpm))
				w.advance(2 * time.Second)
			}
		}}
		must(t, l, asks(Costs{"rpm": 2, "tpm": 400}, rpm, tpm))
		if late == 1 {
			w.wantHeld(l, rpm, 548)
		}
		check.Equal(t, sent, 2, "transactions")
	}
}

// fourFull returns a process with images of four full shards, and a request for all their tokens.
func fourFull(t *testing.T, opts Options, limit Limit) (w *world, l *Limiter, all Request) {
	t.Helper()
	w = newWorld(t)
	l, all = w.process(opts), asks(Costs{limit.Name: limit.Capacity}, limit)
	must(t, l, all).Rollback(t.Context())
	w.split(l, 4)
	must(t, l, all).Rollback(t.Context())
	return w, l, all
}

// If the calls of a request larger than a shard fail, no shard is taken for missing: as soon as
// calls work again, it is granted.
func TestALargeRequestAfterCallsThatFailed(t *testing.T) {
	for name, fails := range map[string]func(memdynamo.Op) bool{
		"reads":        func(op memdynamo.Op) bool { return !isWrite(op) },
		"transactions": func(op memdynamo.Op) bool { return op.Name == memdynamo.TransactWriteItems },
	} {
		w, l, all := fourFull(t, Options{}, PerHour("rph", 80))
		w.db.SetHook(onEvery(fails, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }))
		for range desk.BreaksAfter - 1 {
			check.Is(t, check.Err(l.Acquire(t.Context(), all)), ErrUnavailable, "%s fail", name)
		}
		w.db.SetHook(nil)
		must(t, l, all)
	}
}

// An unreadable shard fails a payment from several shards: the error is returned, and no shard has
// paid.
func TestADamagedShardPaysNothingTogether(t *testing.T) {
	w, l, all := fourFull(t, Options{}, PerHour("rph", 80))
	var before *memdynamo.DB
	sent := 0
	l.store.Store = lateWrites{l.store.Store, func() {
		if sent++; sent == 1 {
			w.edit(l, 3, item.Item{"rf": item.S("soon")})
			before = w.db.Snapshot()
		}
	}}
	if _, err := l.Acquire(t.Context(), all); !errors.Is(err, ErrUnreadable) || sent != 1 {
		t.Errorf("%v after %d transactions, want ErrUnreadable after one", err, sent)
	}
	w.sameTable(before)
}

// A request of two limits on shards, some of which are in debt for one limit and have tokens of the
// other: they cannot pay while in debt. The denial names the first instant at which the request can
// be granted, to the millisecond, and repeating it costs nothing until the images are due for a
// look.
func TestShardsInDebtDoNotPay(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 4))
	denials := 0
	for range 100 {
		w := newWorld(t)
		rpm, tpm := PerMinute("rpm", 80), PerMinute("tpm", 800)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm)).Rollback(t.Context())
		count := int64(2 << rng.IntN(3))
		w.split(l, int(count))
		for k := range count {
			tokens := rng.Int64N(800 / count)
			if rng.IntN(2) == 0 {
				tokens = -1 - rng.Int64N(1600/count)
			}
			w.edit(l, int(k), item.Item{
				"b_rpm_tk": item.N(rng.Int64N(80/count+1) * 1000), "b_tpm_tk": item.N(tokens * 1000),
			})
		}
		// More than a share, so all shards are read.
		req := asks(Costs{"rpm": 80/count + 1 + rng.Int64N(20), "tpm": 1 + rng.Int64N(30)}, rpm, tpm)
		l = w.process(Options{})
		_, err := l.Acquire(t.Context(), req)
		if err == nil {
			continue
		}
		denials++
		d, ok := errors.AsType[*LimitError](err)
		if !ok || d.Estimated {
			t.Fatalf("%v, want an exact denial: all shards are known", err)
		}
		after := d.RetryAfter
		w.db.ResetStats()
		for ; after > 20*time.Millisecond && d.RetryAfter-after < 900*time.Millisecond; after -= 10 * time.Millisecond {
			w.advance(10 * time.Millisecond)
			if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) || w.db.Stats().Calls() > 0 {
				t.Fatalf("denied for %s, %s before: %v after %+v", d.RetryAfter, after, err, w.db.Stats())
			}
		}
		w.advance(after - time.Millisecond)
		check.MustBe(t, check.Err(l.Acquire(t.Context(), req)), ErrLimited,
			"denied for %s, a millisecond before", d.RetryAfter)
		w.advance(time.Millisecond)
		must(t, l, req)
	}
	if denials < 50 {
		t.Fatalf("%d denials show nothing", denials)
	}
}

// A limit has changed, and shards at various levels still have the old one: a caller that follows
// the denials is granted after a few, each at the cost of at most one read of the shards. A lowered
// limit leaves no room for the tokens of a fuller shard; a raised one must first be written to
// every shard, one per second.
func TestChangedLimitOnASplitBucketIsGrantedSoon(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 5))
	for range 100 {
		w := newWorld(t)
		tpm := PerMinute("tpm", 800)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, PerMinute("rpm", 800), tpm)).Rollback(t.Context())
		count := int64(2 << rng.IntN(3))
		w.split(l, int(count))
		for k := range count {
			level := func() item.Value { return item.N(rng.Int64N(800/count+1) * 1000 * rng.Int64N(2)) }
			w.edit(l, int(k), item.Item{"b_rpm_tk": level(), "b_tpm_tk": level()})
		}
		capacity := []int64{50, 80, 400, 2000}[rng.IntN(4)]
		cost := capacity/count + 1 + rng.Int64N(capacity-capacity/count)
		l = w.process(Options{})
		w.db.ResetStats()
		w.eventually(l, asks(Costs{"rpm": cost, "tpm": 1}, PerMinute("rpm", capacity), tpm), int(count)+3)
		if n := w.db.Stats().Reads; n > int(count)+4 {
			t.Errorf("%d shards, 800 changed to %d, cost %d: %d reads", count, capacity, cost, n)
		}
	}
}

// TestGiftsAreFoundOnAllShards: a process denies by the images of 32 empty shards, when all of them
// are filled by another process, as by a reset. The first look shows tokens that no refill
// explains: then all shards are read once, and all tokens are available.
func TestGiftsAreFoundOnAllShards(t *testing.T) {
	for _, cascade := range []bool{false, true} {
		testGifts(t, cascade)
	}
}

func testGifts(t *testing.T, cascade bool) {
	const shards = 32
	w, l := newProcess(t, Options{})
	if cascade {
		w.entity(l, acme, "org")
		w.entity(l, "org", "")
	}
	w.configure(l, "", "", PerHour("rph", 640))
	w.configure(l, "org", gpt, PerHour("rph", 1_000_000))
	one := stored(Costs{"rph": 1})
	must(t, l, one).Rollback(t.Context())
	w.split(l, shards)
	for drain(t, l, stored(Costs{"rph": 10})) > 0 {
		w.advance(time.Second)
	}
	drain(t, l, one)
	w.advance(time.Second)
	for k := range shards {
		w.edit(l, k, item.Item{"b_rph_tk": item.N(20_000)})
	}
	w.db.ResetStats()
	granted := 0
	for range 3 { // two seconds
		granted += drain(t, l, one)
		w.advance(time.Second)
	}
	st := w.db.Stats()
	t.Logf("cascade %v: %d granted for %d updates, %d transactions and %.0f read units", cascade, granted, st.Updates,
		st.Transactions, st.ReadUnits)
	if granted < 640 {
		t.Errorf("cascade %v: %d of 640 granted in two seconds", cascade, granted)
	}
	if st.ReadUnits > 3*shards {
		t.Errorf("cascade %v: %.0f read units, want at most %d", cascade, st.ReadUnits, 3*shards)
	}
}

// A request larger than a shard's share, which others outrun each time, is also denied after three
// round trips: it reads all shards, and sends two transactions. If its caller would not wait for
// the second, the first one denies it.
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
			w.advance(50 * time.Second) // the limits stay cached
			w.db.ResetStats()
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				time.Sleep(trip)
				if op.Name == memdynamo.TransactWriteItems { // one more token is taken from each shard
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

// A transaction that is refused because its shards have split, or one is gone, is not sent again:
// its images are obsolete. Nor is one of a request that others have outrun on single shards before;
// it is refused only if its tokens are gone. The images of a refusal are used afterwards.
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
		left          int64 // the known level of shard 3 afterwards, in millitokens
	}{
		"split": {late: func(w *world, l *Limiter) {
			check.Must(t, w.db.Bare().Transact(t.Context(), "split", table.Split(w.shards(l, acme, gpt)[3], l.now())))
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
			must(t, l, asks(Costs{"rpm": 0}, limit)) // the limits are cached
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
			check.Equal(t, seen.Absent, c.gone, "shard 3 is known to be absent")
			if s := seen.Image.State; !c.gone && s.Slots[s.Index("rpm")].Tokens != c.left {
				t.Errorf("shard 3 is known to hold %d, want %d", s.Slots[s.Index("rpm")].Tokens, c.left)
			}
		})
	}
}

// A transaction that collides with another one is repeated a few times, after pauses that double.
// If its answer is lost, it is sent again, and performed once. If it is never answered, the outcome
// is unknown, even if the last attempt was not sent.
func TestTransactionsAreSentAgain(t *testing.T) {
	const lost, met, down = store.Unknown, store.Conflict, store.Unavailable
	for _, c := range []struct {
		applied bool // the first attempt
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

// A caller that leaves between the read of all shards and the transaction has certainly taken nothing.
func TestACallerThatLeavesBeforeATransaction(t *testing.T) {
	w, l, all := fourFull(t, Options{}, PerMinute("rpm", 400))
	w.advance(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	read, sent := false, 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		read = read || len(op.Keys) == 4
		return true, nil
	})
	l.opts.Now = func() time.Time {
		if read {
			cancel()
		}
		return w.time()
	}
	l.store.Store = lateWrites{l.store.Store, func() { sent++ }}
	if _, err := l.Acquire(ctx, all); !errors.Is(err, ErrUnavailable) || sent != 0 || !read {
		t.Errorf("%v after %d transactions, read %v", err, sent, read)
	}
}

// What a transaction takes for a caller that has left meanwhile is given back.
func TestACallerThatLeavesDuringATransaction(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, l, all := fourFull(t, Options{}, PerMinute("rpm", 400))
			w.advance(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			l.store.Store = lateWrites{l.store.Store, func() {
				cancel()
				synctest.Wait() // the caller has its answer
				if refused {
					must(t, w.process(Options{}), all)
				}
			}}
			if _, err := l.Acquire(ctx, all); !errors.Is(err, ErrCanceled) || !errors.Is(err, ErrUnknown) {
				t.Errorf("refused %v: %v, want canceled with an unknown outcome", refused, err)
			}
			l.desks.Wait()
			want := int64(0)
			if refused {
				want = 400
			}
			check.Equal(t, w.used(l, "rpm"), want, "refused %v: used", refused)
			reservesNothing(t, l)
		})
	}
}
