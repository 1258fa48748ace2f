package limiter

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// waits waits until the request is granted.
func waits(t testing.TB, l *Limiter, req Request) {
	t.Helper()
	_, err := l.Wait(t.Context(), req)
	check.NoError(t, err)
}

// reserved reserves, and fails the test if that is denied.
func reserved(t testing.TB, l *Limiter, req Request) (*Lease, time.Duration) {
	t.Helper()
	lease, after, err := l.Reserve(t.Context(), req)
	check.Must(t, err)
	return lease, after
}

// TestLargeWaiterGetsItsShare: eight clients that repeatedly want 5 tokens compete with one that
// wants 400. It prints the grants of each in 22 seconds, the cost, and how much of the refill was
// delivered.
func TestLargeWaiterGetsItsShare(t *testing.T) {
	const length = 22 * time.Second
	limit := PerSecond("tps", 100).WithCapacity(800)
	for _, c := range []struct {
		name   string
		own    bool // a process for each
		shards int
	}{{"one process", false, 1}, {"a process each", true, 1}, {"one process, four shards", false, 4}} {
		t.Run(c.name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
				first := process()
				must(t, first, asks(Costs{"tps": 1}, limit)).Rollback(t.Context())
				w.split(first, c.shards)
				w.db.ResetStats()
				var mu sync.Mutex
				var history buckettest.History
				granted, delivered := map[int64]int{}, int64(0)
				begin := time.Now()
				ctx, cancel := context.WithDeadline(t.Context(), begin.Add(length))
				defer cancel()
				var wg sync.WaitGroup
				for i := range 9 {
					l, cost := first, int64(5)
					if c.own {
						l = process()
					}
					if i == 0 {
						cost = 400
					}
					wg.Go(func() {
						for {
							_, err := l.Wait(ctx, asks(Costs{"tps": cost}, limit))
							if err != nil {
								if !errors.Is(err, ErrLimited) && ctx.Err() == nil {
									t.Error(err)
								}
								return
							}
							mu.Lock()
							granted[cost]++
							delivered += cost
							history.Take(time.Now().UnixMilli(), cost*bucket.Milli)
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				earned := limit.Capacity + limit.Refill*int64(length/limit.Period)
				s := limit.stored()
				// Answers take 2 ms.
				worst := history.Worst(bucket.Rate{Capacity: s.Capacity, Amount: s.Amount, Period: s.Period}, 2)
				stats := w.db.Stats()
				writes := stats.Updates
				t.Logf("in %s: %d grants of 400, %d of 5, %d writes, %d of %d delivered, worst excess %v",
					length, granted[400], granted[5], writes, delivered, earned, worst)
				if granted[400] < 5 || granted[5] < 36 {
					t.Errorf("not shared: %v", granted)
				}
				if delivered < earned*9/10 {
					t.Errorf("%d of %d delivered", delivered, earned)
				}
				most := grants(granted)*5/4 + 10
				if c.own { // images of others are old: a refused write, and one that holds
					most = grants(granted)*5/2 + 10
				}
				if writes > most {
					t.Errorf("%d writes for %d grants", writes, grants(granted))
				}
				if worst.Excess > 0 {
					t.Errorf("worst excess %v", worst)
				}
			})
		})
	}
}

func grants(by map[int64]int) (n int) {
	for _, g := range by {
		n += g
	}
	return n
}

// TestWaitIsFirstComeFirstServed, to the millisecond, with one write each.
func TestWaitIsFirstComeFirstServed(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		limit := PerSecond("tps", 10)
		l := process()
		w.db.SetHook(nil)
		must(t, l, asks(Costs{"tps": 10}, limit))
		w.db.ResetStats()
		begin := time.Now()
		var wg sync.WaitGroup
		for i, cost := range []int64{9, 1, 2} {
			wg.Go(func() {
				want := []time.Duration{900 * time.Millisecond, time.Second, 1200 * time.Millisecond}[i]
				if _, err := l.Wait(t.Context(), asks(Costs{"tps": cost}, limit)); err != nil || time.Since(begin) != want {
					t.Errorf("%d granted after %s (%v), want %s", cost, time.Since(begin), err, want)
				}
			})
			synctest.Wait()
		}
		deniedBy(t, l, asks(Costs{"tps": 1}, limit))
		wg.Wait()
		if s := w.db.Stats(); s.Updates != 3 || s.Calls() != 3 {
			t.Errorf("%+v, want one write each", s)
		}
	})
}

// TestWaitObeysTheDeadline: a request that would take longer is denied immediately and exactly,
// even if only the answer shows it; one that just fits is granted.
func TestWaitObeysTheDeadline(t *testing.T) {
	for _, stale := range []bool{false, true} {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			limit := PerSecond("tps", 10)
			l := process()
			w.db.SetHook(nil)
			must(t, l, asks(Costs{"tps": 10}, limit))
			if stale {
				reserved(t, process(), asks(Costs{"tps": 5}, limit))
			}
			owed := map[bool]time.Duration{true: 500 * time.Millisecond}[stale]
			before := w.db.Snapshot()
			short, cancel := context.WithTimeout(t.Context(), time.Second+owed-time.Millisecond)
			defer cancel()
			begin := time.Now()
			_, err := l.Wait(short, asks(Costs{"tps": 10}, limit))
			d, ok := errors.AsType[*LimitError](err)
			if !ok || d.RetryAfter != time.Second+owed || time.Since(begin) != 0 || d.Wanted != 10 {
				t.Fatalf("stale %v: got %v after %s, want denied at once for %s", stale, err, time.Since(begin), time.Second+owed)
			}
			if !stale {
				w.sameTable(before)
			}
			long, cancel := context.WithTimeout(t.Context(), d.RetryAfter)
			defer cancel()
			if _, err := l.Wait(long, asks(Costs{"tps": 9}, limit)); err != nil ||
				time.Since(begin) != 900*time.Millisecond+owed {
				t.Fatalf("stale %v: %v after %s", stale, err, time.Since(begin))
			}
		})
	}
}

// TestWaitGivesBackWhenTheCallerGoes, and later requests can use the tokens.
func TestWaitGivesBackWhenTheCallerGoes(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		limit := PerSecond("tps", 10)
		l := process()
		must(t, l, asks(Costs{"tps": 10}, limit))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		lease, err := l.Wait(ctx, asks(Costs{"tps": 10}, limit))
		if lease != nil || !errors.Is(err, context.Canceled) || errors.Is(err, ErrLimited) {
			t.Fatalf("got %v, %v", lease, err)
		}
		if _, ok := errors.AsType[*SettleError](err); ok {
			t.Fatalf("got %v, but the tokens were given back", err)
		}
		begin := time.Now()
		if _, after, err := l.Reserve(t.Context(), asks(Costs{"tps": 4}, limit)); err != nil ||
			after > 100*time.Millisecond {
			t.Fatalf("4 after %s and %s: %v, want about 90ms", time.Since(begin), after, err)
		}
		// If giving back fails, the caller gets the error.
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, func() {
			w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
			cancel()
		})
		_, err = l.Wait(ctx, asks(Costs{"tps": 10}, limit))
		if failed, ok := errors.AsType[*SettleError](err); !ok || failed.Op != "rollback" ||
			!errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "limiter: canceled by the caller: wait ") {
			t.Fatalf("got %v, want a wait that was canceled, and a rollback that failed", err)
		}
	})
}

// A request that need not wait is granted, or has taken nothing when it returns, whenever its
// caller leaves.
func TestWaitThatNeedNotWaitIsGranted(t *testing.T) {
	outcomes := map[string]int{}
	for leaves := range 20 { // at that reading of the clock
		inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
			must(t, l, asks(Costs{"rpm": 1}, rpm10))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var readings atomic.Int64
			now := l.opts.Now
			l.opts.Now = func() time.Time {
				if readings.Add(1) == int64(leaves) {
					cancel()
				}
				return now()
			}
			_, err := l.Wait(ctx, asks(Costs{"rpm": 1}, rpm10))
			synctest.Wait()
			outcomes[kindName(err)]++
			if used := w.used(l, "rpm"); used != 1 && (err != nil || used != 2) {
				t.Errorf("left at reading %d: %v, and %d used", leaves, err, used)
			}
		})
	}
	if outcomes["granted"] == 0 || outcomes["granted"] == 20 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// emptyFour returns an empty bucket of four shards.
func emptyFour(t *testing.T) (*world, *Limiter, Limit) {
	w, l := newProcess(t, Options{})
	limit := PerMinute("rpm", 60)
	l.desks.Settings.MaxShards = 4
	must(t, l, asks(Costs{"rpm": 0}, limit))
	w.split(l, 4)
	must(t, l, asks(Costs{"rpm": 60}, limit))
	return w, l, limit
}

// TestReserveOwesOnAllShards: a request larger than any share goes into debt on all shards, a part
// on each, and waits no longer than with an undivided bucket.
func TestReserveOwesOnAllShards(t *testing.T) {
	w, l, limit := emptyFour(t)
	lease, after, err := l.Reserve(t.Context(), asks(Costs{"rpm": 40}, limit))
	if err != nil || len(lease.items) != 4 || after != 40*time.Second {
		t.Fatalf("%v: %d shards, after %s, want four after 40s", err, len(lease.items), after)
	}
	w.wantHeld(l, limit, -40)
	deniedBy(t, l, asks(Costs{"rpm": 1}, limit))
	second, after, err := l.Reserve(t.Context(), asks(Costs{"rpm": 40}, limit))
	if err != nil || after != 80*time.Second {
		t.Fatalf("the second: %v, after %s, want 80s", err, after)
	}
	before := w.db.Snapshot()
	if _, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 40}, limit)); !errors.Is(err, ErrLimited) {
		t.Fatalf("behind a debt of 80 of 60: %v", err)
	}
	w.sameTable(before)
	check.Must(t, errors.Join(lease.Rollback(t.Context()), second.Rollback(t.Context())))
	w.wantHeld(l, limit, 0)
}

// TestReserveOnSeveralShardsUnderFaults: the transaction that takes from all shards is refused, its
// answer is lost, or the look after it fails.
func TestReserveOnSeveralShardsUnderFaults(t *testing.T) {
	transaction := func(op memdynamo.Op) bool { return op.Name == memdynamo.TransactWriteItems }
	for _, c := range []struct {
		name string
		hook func(w *world) memdynamo.Hook
		want string
		held int64
	}{
		{"refused once", func(w *world) memdynamo.Hook {
			return onCall(transaction, 0, func(op memdynamo.Op) (bool, error) { return false, w.refusedNow(op) })
		}, "granted", -40},
		{"applied, answer lost once", func(*world) memdynamo.Hook {
			return onCall(transaction, 0, func(memdynamo.Op) (bool, error) { return true, memdynamo.Fail(store.Unknown) })
		}, "granted", -40},
		{"unavailable", func(*world) memdynamo.Hook {
			return onCall(transaction, 0, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
		}, "unavailable", 0},
		{"not read afterwards", func(*world) memdynamo.Hook {
			return func(op memdynamo.Op) (bool, error) {
				return op.Name != memdynamo.BatchGetItem || len(op.Keys) != 4, nil
			}
		}, "unavailable", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, l, limit := emptyFour(t)
			hook := c.hook(w)
			if c.name == "not read afterwards" { // but before
				paid, fail := false, hook
				hook = func(op memdynamo.Op) (bool, error) {
					if paid = paid || transaction(op); paid {
						return fail(op)
					}
					return true, nil
				}
			}
			w.db.SetHook(oneByOne(hook))
			_, after, err := l.Reserve(t.Context(), asks(Costs{"rpm": 40}, limit))
			w.db.SetHook(nil)
			if kindName(err) != c.want || err == nil && after != 40*time.Second {
				t.Fatalf("%v after %s, want %s", err, after, c.want)
			}
			w.wantHeld(l, limit, c.held)
		})
	}
}

// TestReservationsThatStayAreUnknown: the images that show when a request may continue cannot be
// read, and its tokens cannot be given back either. So tokens may be taken: no outcome says that
// nothing was written, however the call ended.
func TestReservationsThatStayAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, back := range []store.Kind{store.Unknown, store.Unavailable} {
			for _, leaves := range []bool{true, false} {
				for _, policy := range []Policy{PolicyBlock, PolicyAllow} {
					w, l, limit := emptyFour(t)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					paid := false
					w.db.SetHook(func(op memdynamo.Op) (bool, error) {
						switch {
						case op.Name == memdynamo.TransactWriteItems:
							paid = true
						case paid && op.Name == memdynamo.BatchGetItem:
							if leaves {
								cancel()
							}
							return false, memdynamo.Fail(store.Unavailable)
						case paid:
							return false, memdynamo.Fail(back)
						}
						return true, nil
					})
					req := asks(Costs{"rpm": 40}, limit)
					req.OnUnavailable = policy
					lease, _, err := l.Reserve(ctx, req)
					if err == nil {
						err = lease.Cause()
					}
					if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrCanceled) != leaves {
						t.Errorf("give-back %v, caller leaves %v, %v: %v, want ErrUnknown", back, leaves, policy, err)
					}
					w.wantHeld(l, limit, -40)
				}
			}
		}
	})
}

// A process finds the queue full because others have filled it since its last look: it gives its
// tokens back, and is denied.
func TestReserveBehindAQueueThatOthersHaveFilled(t *testing.T) {
	w := newWorld(t)
	l, other := w.process(Options{}), w.process(Options{})
	limit := PerSecond("rps", 40)
	must(t, l, asks(Costs{"rps": 40}, limit))
	for {
		if _, _, err := other.Reserve(t.Context(), asks(Costs{"rps": 40}, limit)); errors.Is(err, ErrQueueFull) {
			break
		} else {
			check.Must(t, err)
		}
	}
	before := w.held(l, limit)
	if lease, after, err := l.Reserve(t.Context(), asks(Costs{"rps": 1}, limit)); lease != nil || after != 0 ||
		!errors.Is(err, ErrQueueFull) {
		t.Errorf("got a place for %v, %v, want a full queue", after, err)
	}
	if after := w.held(l, limit); after.Cmp(before) != 0 {
		t.Errorf("the bucket holds %s, held %s before", after, before)
	}
}

// A wait beyond the range of Duration is the longest one: it is never negative, which callers would
// take for "immediately", and the request is not reported as too large for a bucket that can hold
// it.
func TestWaitsOfCenturies(t *testing.T) {
	for _, limit := range []Limit{
		PerDay("rpm", 1).WithCapacity(1_000_000),
		{Name: "rpm", Capacity: MaxTokens, Refill: 1, Period: validate.MaxPeriod},
	} {
		_, l := newProcess(t, Options{})
		req := asks(Costs{"rpm": limit.Capacity}, limit)
		must(t, l, req)
		_, err := l.Acquire(t.Context(), req)
		d, ok := errors.AsType[*LimitError](err)
		if !ok {
			t.Errorf("%s: got %v, want denied", limit, err)
			continue
		}
		const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
		if d.RetryAfter != longest || d.Statuses[0].RetryAfter != longest {
			t.Errorf("%s: retry after %s, status %s, want %s", limit, d.RetryAfter, d.Statuses[0].RetryAfter, longest)
		}
		if text := d.Error(); !strings.HasSuffix(text, " left, not within 292 years") {
			t.Errorf("%s: says %q", limit, text)
		}
	}
}

// owed returns a bucket whose debt in two limits takes centuries to refill.
func owed(t *testing.T, w *world, l *Limiter) Request {
	t.Helper()
	req := asks(Costs{"a": 1, "b": 1}, PerHour("a", 1).WithCapacity(10), PerHour("b", 2).WithCapacity(10))
	lease := must(t, l, req)
	check.Must(t, errors.Join(lease.Settle(Costs{"a": MaxTokens, "b": MaxTokens}), lease.Commit(t.Context())))
	return req
}

// A Wait without a deadline that finds such a queue stands in line until its caller leaves, and
// does nothing meanwhile.
func TestWaitForCenturies(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
		req := owed(t, w, l)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(time.Minute, cancel)
		asked, now := 0, l.opts.Now
		l.opts.Now = func() time.Time {
			if asked++; asked > 100 {
				cancel()
			}
			return now()
		}
		if _, err := l.Wait(ctx, req); !errors.Is(err, ErrCanceled) || asked > 100 {
			t.Errorf("decided again and again: asked the clock %d times, %v", asked, err)
		}
	})
}
