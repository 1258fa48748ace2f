package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// quotaOf returns the quota of the bucket's only shard.
func (w *world) quotaOf(l *Limiter) bucket.Slot {
	b := w.shards(l, acme, gpt)[0]
	return b.State.Slots[b.State.Index("rpd")]
}

// daily returns a request for one token of a rate and of a quota.
func daily(quota int64) Request {
	return asks(Costs{"rps": 1, "rpd": 1}, PerSecond("rps", 1000), Quota("rpd", quota, Daily("")))
}

// One write prefetches a quota like a rate. Expired tokens are available again to all, and count as
// never used.
func TestAQuotaIsTakenAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var told atomic.Int64
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: func(_ context.Context, e Event) {
			told.Add(int64(e.Writes))
			if e.Kind == EventAhead && len(e.Taken)+len(e.Ended) == 0 {
				t.Errorf("a write for nothing: %+v", e)
			}
		}})
		w.busy(l, daily(100_000), 200)
		w.db.ResetStats()
		told.Store(0)
		granted, _ := w.busy(l, daily(100_000), 500)
		if n := w.db.Stats().WriteUnits; granted != 500 || n > 30 || n < 5 {
			t.Errorf("%d granted with %d writes", granted, n)
		}
		if held := l.desks.Of(acmeGPT).Left(0, "rpd", l.desks.Moment); held == 0 {
			t.Error("nothing is held of the quota")
		}
		w.pass(2 * time.Second)
		synctest.Wait()
		if n := w.db.Stats().WriteUnits; told.Load() != int64(n) {
			t.Errorf("%d writes are reported, %v were made", told.Load(), n)
		}
		if sl := w.quotaOf(l); sl.Tokens/1000 != 100_000-700 || sl.Used/1000 != 700 || sl.Ended != 0 {
			t.Errorf("700 of 100,000 were granted: %+v", sl)
		}
		w.db.ResetStats()
		w.pass(time.Hour)
		synctest.Wait()
		check.Equal(t, w.db.Stats().WriteUnits, 0, "writes while nothing is held")
	})
}

// Two processes prefetch a quota across its edge. In each period exactly the quota is granted, and
// tokens of the first period are not granted in the second.
func TestAQuotaTakenAheadIsExactPerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ps := []*Limiter{w.process(Options{Ahead: 2 * time.Second}), w.process(Options{Ahead: 2 * time.Second})}
		edge := midnight(w)
		w.advance(edge.Sub(w.time()) - 30*time.Second)
		for _, quota := range []int{500, 300} { // more demand than the quota, and less
			granted := map[bool]int{}
			for i := range 8000 {
				one := ps[i%2]
				if i%2 == 0 {
					w.pass(10 * time.Millisecond)
				}
				if quota == 300 && w.time().Before(edge) && i > 800 {
					continue
				}
				_, err := one.Acquire(t.Context(), daily(int64(quota)))
				for _, l := range ps {
					l.desks.Wait()
				}
				if err == nil {
					granted[w.time().After(edge.Add(999*time.Millisecond))]++
				} else if !errors.Is(err, ErrLimited) {
					t.Fatal(err)
				}
			}
			if granted[false] > quota || granted[true] != quota {
				t.Errorf("%d granted before the edge and %d after it, of %d each", granted[false], granted[true], quota)
			}
			if quota == 500 && granted[false] != quota {
				t.Errorf("%d of %d granted before the edge", granted[false], quota)
			}
			edge = edge.Add(24 * time.Hour)
			w.advance(edge.Sub(w.time()) - 30*time.Second)
		}
	})
}

// The write that gives expired tokens back fails in every way. It is repeated only if nothing was
// written, and late ones count as expired.
func TestUnspentQuotaIsGivenBackOnce(t *testing.T) {
	const quota = 100_000
	failure := func(k store.Kind) error { return &store.Failure{Kind: k, Op: "UpdateItem", Err: fmt.Errorf("planned")} }
	unknown, down := failure(store.Unknown), failure(store.Unavailable)
	thrice, sixTimes := strings.Repeat("[0 false unavailable]", 3), strings.Repeat("[0 false setup]", 6)
	for name, c := range map[string]struct {
		applies  bool
		err      error
		late     bool   // the day has ended meanwhile, and others have begun the next
		back     bool   // the tokens are available again in the end
		reported string // for each attempt: the writes, whether all held tokens ended with them, the outcome
	}{
		"written":                         {applies: true, back: true, reported: "[1 true ok]"},
		"written, the answer lost":        {applies: true, err: unknown, back: true, reported: "[1 true unknown]"},
		"not written, outcome unknown":    {err: unknown, reported: "[1 true unknown]"},
		"not written, sent again":         {err: down, back: true, reported: thrice + "[1 true ok]"},
		"met a transaction":               {err: failure(store.Conflict), back: true, reported: "[1 true ok]"},
		"not allowed for a while":         {err: failure(store.Setup), back: true, reported: sixTimes + "[1 true ok]"},
		"written after the day ended":     {applies: true, late: true, reported: "[1 true ok]"},
		"not written before the day ends": {err: down, late: true, reported: "[1 true ok]"},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w := newWorld(t)
			var mu sync.Mutex // each attempt has its own goroutine
			var reported strings.Builder
			var held atomic.Int64
			l := w.process(Options{Ahead: 500 * time.Millisecond, Timeout: 2 * time.Second,
				Observe: only(EventAhead, func(e Event) {
					if held.Load() > 0 && e.Taken == nil {
						outcome := Event{Kind: EventAcquire, Err: e.Err}.Outcome()
						mu.Lock()
						fmt.Fprintf(&reported, "[%d %v %s]", e.Writes, e.Ended["rpd"] == held.Load(), outcome)
						mu.Unlock()
					}
					if e.Entity != acme || e.Resource != gpt || len(e.Ended) == 0 && e.Ended != nil {
						t.Errorf("reported %+v", e)
					}
				})})
			other := w.process(Options{})
			if c.late {
				w.advance(midnight(w).Sub(w.time()) - 4*time.Second)
			}
			granted, _ := w.busy(l, daily(quota), 300)
			if held.Store(l.desks.Of(acmeGPT).Left(0, "rpd", l.desks.Moment) / 1000); held.Load() == 0 {
				t.Fatal("nothing is held")
			}
			sent := 0
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				sent++
				if sent > 12 {
					return true, nil
				}
				return c.applies, c.err
			})
			if c.late {
				w.advance(3 * time.Second) // clocks differ: one is ahead, the other process still uses this one
				w.db.SetHook(nil)
				must(t, other, daily(quota))
				w.advance(-2400 * time.Millisecond)
			}
			for range 60 {
				w.pass(10 * time.Second)
				synctest.Wait()
			}
			w.db.SetHook(nil)
			check.Equal(t, reported.String(), c.reported, "reported")
			sl := w.quotaOf(l)
			switch left := sl.Tokens / 1000; {
			case c.late && left != quota-1:
				t.Errorf("%d are left of the next day, one was granted", left)
			case !c.late && c.back && left != quota-int64(granted):
				t.Errorf("%d are left, %d were granted", left, granted)
			case !c.late && !c.back && left != quota-int64(granted)-held.Load():
				t.Errorf("%d are left, %d were granted, and %d lost", left, granted, held.Load())
			}
			if c.late { // without another request
				check.Equal(t, sl.Ended/1000, held.Load(), "ended unspent")
			}
		}))
	}
}

// Others change the bucket before expired tokens of a period that is over are written. They still
// count as expired.
func TestLateQuotaOfAChangedBucketIsWritten(t *testing.T) {
	for _, removed := range []string{"b_rpx_", "b_wcu_"} {
		t.Run(removed, bubble(func(t *testing.T) {
			w := newWorld(t)
			l, other := w.process(Options{Ahead: 500 * time.Millisecond}), w.process(Options{})
			w.advance(midnight(w).Sub(w.time()) - 4*time.Second)
			req := asks(Costs{"rpd": 1, "rpx": 1}, Quota("rpd", 1000, Daily("")), Quota("rpx", 1000, Monthly(1, "")))
			w.busy(l, req, 300)
			held := l.desks.Of(acmeGPT).Left(0, "rpd", l.desks.Moment) / 1000
			w.advance(3 * time.Second)
			must(t, other, req)
			w.advance(-2400 * time.Millisecond)
			gone := item.Item{}
			for attr := range w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0)) {
				if strings.HasPrefix(attr, removed) {
					gone[attr] = nil
				}
			}
			w.edit(l, 0, gone)
			w.pass(time.Minute)
			synctest.Wait()
			if ended := w.quotaOf(l).Ended / 1000; ended != held || held == 0 {
				t.Errorf("%d of %d held tokens are written as expired", ended, held)
			}
		}))
	}
}

// A deleted bucket is created again, whole, within the same period. Expired prefetched tokens of
// the old one, from any shard, are not added to it.
func TestUnspentQuotaOfADeletedBucketIsNotGivenBack(t *testing.T) {
	const quota = 100_000
	for shard := range 2 {
		t.Run(fmt.Sprint(shard), bubble(func(t *testing.T) {
			w := newWorld(t)
			l, other := w.process(Options{}), w.process(Options{})
			must(t, other, daily(quota))
			w.split(other, 2)
			held := int64(0)
			for try := 0; try < 20 && held == 0; try++ {
				l = w.process(Options{Ahead: 500 * time.Millisecond})
				w.pass(10 * time.Second)
				w.busy(l, daily(quota), 300)
				held = l.desks.Of(acmeGPT).Left(shard, "rpd", l.desks.Moment)
			}
			if held == 0 {
				t.Fatal("nothing is held of the shard")
			}
			w.remove(l, 0, 1)
			must(t, w.process(Options{}), daily(quota))
			w.pass(10 * time.Second)
			synctest.Wait()
			if sl := w.quotaOf(l); sl.Tokens/1000 != quota-1 || sl.Used/1000 != 1 {
				t.Errorf("one of %d was granted, %d are left", quota, sl.Tokens/1000)
			}
		}))
	}
}

// Nor are tokens that a lease gives back from the deleted bucket.
func TestALeaseOfADeletedBucketGivesNoQuotaBack(t *testing.T) {
	w := newWorld(t)
	l, other := w.process(Options{}), w.process(Options{})
	lease := must(t, l, daily(100))
	w.advance(5 * time.Second)
	w.remove(l, 0)
	must(t, other, daily(100))
	if err := lease.Rollback(t.Context()); err != nil || w.quotaOf(l).Tokens/1000 != 99 {
		t.Errorf("one of 100 was granted, %d are left, %v", w.quotaOf(l).Tokens/1000, err)
	}
}

// Shards that were split off later are newer than the first. Each gets back its own payment.
func TestALeaseOfSeveralShardsGivesEachItsQuotaBack(t *testing.T) {
	w, l := newProcess(t, Options{})
	of := func(n int64) Request { return asks(Costs{"rpd": n}, Quota("rpd", 8, Daily(""))) }
	must(t, l, of(0))
	w.advance(time.Minute)
	w.split(l, 2)
	for fullest, tokens := range map[int][2]int64{0: {4000, 3000}, 1: {3000, 4000}} {
		for shard, milli := range tokens {
			w.edit(l, shard, item.Item{"b_rpd_tk": item.N(milli)})
		}
		lease := must(t, w.process(Options{}), of(6))
		if len(lease.items) != 2 || lease.items[0].Shard != fullest {
			t.Fatalf("%+v have paid, want both shards, the fullest first", lease.items)
		}
		check.Must(t, lease.Rollback(t.Context()))
		for shard, b := range w.shards(l, acme, gpt) {
			if sl := b.State.Slots[b.State.Index("rpd")]; sl.Tokens != tokens[shard] {
				t.Errorf("shard %d: %d millitokens are left of %d", shard, sl.Tokens, tokens[shard])
			}
		}
	}
}

// In the second after an edge nothing is prefetched, and a busy process writes as if it never
// prefetched: a rate together with the quota is granted in full. When it writes is random, so this
// is tested on average over several days.
func TestRatesGoOnBehindTheEdgeOfAQuota(t *testing.T) {
	const days = 4
	granted := map[int]int{}
	for range days {
		inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
			edge := midnight(w)
			w.advance(edge.Sub(w.time()) - 4*time.Second)
			req := asks(Costs{"rps": 1, "rpd": 1}, PerSecond("rps", 200), Quota("rpd", 100_000, Daily("")))
			for range 3000 {
				w.pass(2 * time.Millisecond)
				_, err := l.Acquire(t.Context(), req)
				l.desks.Wait()
				if err == nil {
					granted[int(w.time().Sub(edge).Milliseconds()+10_000)/1000-10]++
				} else if !errors.Is(err, ErrLimited) {
					t.Fatal(err)
				}
			}
		})
	}
	if granted[0] < days*190 || granted[-1]+granted[0]+granted[1] < days*3*190 {
		t.Errorf("granted by second: %v, want %d each", granted, days*200)
	}
}

// If the caller's clock panics in the background, nothing is blocked permanently.
func TestAClockThatPanicsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var boom atomic.Bool
		l := w.process(Options{Ahead: 500 * time.Millisecond})
		was := l.opts.Now
		l.opts.Now = func() time.Time {
			if boom.CompareAndSwap(true, false) {
				panic("planned")
			}
			return was()
		}
		granted, _ := w.busy(l, daily(100_000), 300)
		boom.Store(true)
		w.pass(2 * time.Second)
		synctest.Wait()
		more, _ := w.busy(l, daily(100_000), 300)
		w.pass(time.Minute)
		synctest.Wait()
		check.Equal(t, w.quotaOf(l).Tokens/1000, 100_000-int64(granted+more),
			"left, %d were granted", granted+more)
	})
}

// While expired tokens cannot be given back, it is retried after pauses that double from the
// timeout to a minute. A longer timeout stays the pause.
func TestGivingBackIsTriedAtGrowingPauses(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		4 * time.Second: "[4 8 16 32 60 60 60]", 80 * time.Second: "[80 80 80]",
	} {
		inBubble(t, Options{Ahead: 500 * time.Millisecond, Timeout: timeout}, func(t *testing.T, w *world, l *Limiter) {
			w.busy(l, daily(100_000), 300)
			var tried []int
			begin := time.Now()
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				tried = append(tried, int(time.Since(begin).Seconds()))
				return false, memdynamo.Fail(store.Setup)
			})
			for range 250 {
				w.pass(time.Second)
				synctest.Wait()
			}
			var pauses []int
			for i, at := range tried[1:] {
				if at > tried[i]+1 { // otherwise it reads the reason, in the same instant
					pauses = append(pauses, at-tried[i])
				}
			}
			check.Equal(t, fmt.Sprint(pauses), want, "a timeout of %s: pauses of %v s", timeout, pauses)
		})
	}
}

// An unreadable bucket is created again, and is whole: its expired tokens are reported, and not
// given back to the new one.
func TestUnspentQuotaOfADamagedBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 100_000
		w := newWorld(t)
		var ended, failed atomic.Int64
		l := w.process(Options{Ahead: 500 * time.Millisecond, Timeout: 2 * time.Second,
			Observe: only(EventAhead, func(e Event) {
				if ended.Add(e.Ended["rpd"]); errors.Is(e.Err, ErrUnreadable) {
					failed.Add(1)
				}
			})})
		w.busy(l, daily(quota), 300)
		held := l.desks.Of(acmeGPT).Left(0, "rpd", l.desks.Moment) / 1000
		key := w.spoil(w.shards(l, acme, gpt)[0].Key(), "b_rpd_tk", item.S("many"))
		ended.Store(0)
		w.pass(20 * time.Second)
		synctest.Wait()
		if failed.Load() != 1 || ended.Load() != held || held == 0 {
			t.Errorf("reported %d times as unreadable, and %d as expired, of %d", failed.Load(), ended.Load(), held)
		}
		w.db.Delete(key)
		must(t, w.process(Options{}), daily(quota))
		w.pass(time.Minute)
		synctest.Wait()
		check.Equal(t, w.quotaOf(l).Tokens/1000, quota-1, "left of the new bucket, one was granted")
	})
}

// The task that handles expiring tokens sleeps until then, and there is one for all charges.
func TestMindingDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asked atomic.Int64
		l := w.process(Options{Ahead: time.Second})
		was := l.opts.Now
		l.opts.Now = func() time.Time { asked.Add(1); return was() }
		w.busy(l, daily(100_000), 300)
		asked.Store(0)
		for range 5000 {
			w.pass(time.Millisecond)
			synctest.Wait()
		}
		if n := asked.Load(); n == 0 || n > 50 {
			t.Errorf("it has asked for the time %d times", n)
		}
	})
}

// Tokens that expired on a shard that has merged are given back to the shard that has its tokens
// now.
func TestUnspentQuotaFollowsAShardThatHasMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 100_000
		w, l := newProcess(t, Options{})
		granted, _ := w.busy(l, daily(quota), 1)
		w.split(l, 2)
		held := func() int64 { return l.desks.Of(acmeGPT).Left(1, "rpd", l.desks.Moment) }
		for n := 0; n < 40 && held() == 0; n++ { // shards are picked at random
			l = w.process(Options{Ahead: 500 * time.Millisecond, Timeout: 2 * time.Second})
			more, _ := w.busy(l, daily(quota), 100)
			granted += more
		}
		if held() == 0 {
			t.Fatal("nothing is held of shard 1")
		}
		w.merge(l, 1)
		w.pass(2 * time.Second)
		synctest.Wait()
		sl := w.quotaOf(l)
		check.Equal(t, sl.Tokens/1000, quota-int64(granted), "left, %d were granted of %d", granted, quota)
	})
}
