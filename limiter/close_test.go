package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// settled takes tokens and settles them to the actual costs.
func settled(t *testing.T, l *Limiter, req Request, actual Costs) {
	t.Helper()
	lease := must(t, l, req)
	check.Must(t, errors.Join(lease.Settle(actual), lease.Commit(t.Context())))
}

// A settlement goes out with the next charge. One settled request per second costs 1.05 writes
// instead of two, ten per second 1.00; and nothing is lost, whether they cost more or less.
func TestSettlingRidesAlong(t *testing.T) {
	for _, c := range []struct {
		perSecond int
		within    time.Duration
		most      float64
	}{{1, 3 * time.Second, 1.1}, {10, 3 * time.Second, 1.02}, {1, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := &told{}
			l := w.process(Options{SettleWithin: c.within, Observe: s.observe})
			req := asks(Costs{"tpm": 500, "tpd": 500}, PerMinute("tpm", 1_000_000), Quota("tpd", 10_000_000, Daily("")))
			settled(t, l, req, nil)
			w.db.ResetStats()
			before := s.sent()
			n, cost := 60*c.perSecond, int64(500)
			for i := range n {
				w.pass(time.Second / time.Duration(c.perSecond))
				actual := int64(300 + i%7*100)
				settled(t, l, req, Costs{"tpm": actual, "tpd": actual})
				cost += actual
			}
			check.Must(t, l.Close(t.Context()))
			writes := w.db.Stats().WriteUnits
			if got := float64(writes) / float64(n); got > c.most || c.within == 0 && got < 1.8 {
				t.Errorf("%d a second within %s: %.2f writes for each request", c.perSecond, c.within, got)
			}
			check.Equal(t, w.used(l, "tpd"), cost, "used")
			if told := s.sent() - before; told != writes {
				t.Errorf("%d writes are reported of %v", told, writes)
			}
		})
	}
}

// A settlement without a charge to join is written alone after its time, once.
func TestSettlingGoesAlone(t *testing.T) {
	inBubble(t, Options{SettleWithin: time.Second}, func(t *testing.T, w *world, l *Limiter) {
		settled(t, l, asks(Costs{"rpm": 6}, rpm10), Costs{"rpm": 2})
		w.db.ResetStats()
		w.pass(900 * time.Millisecond)
		if n := w.db.Stats().Calls(); n != 0 || w.used(l, "rpm") != 6 {
			t.Errorf("%d calls before its time, %d used", n, w.used(l, "rpm"))
		}
		w.pass(200 * time.Millisecond)
		synctest.Wait()
		if n := w.db.Stats().WriteUnits; n != 1 || w.used(l, "rpm") != 2 {
			t.Errorf("%v writes, %d used, want 2", n, w.used(l, "rpm"))
		}
		w.pass(time.Minute)
		check.Equal(t, w.db.Stats().Calls(), 1, "calls")
	})
}

// A settlement that takes more from a bucket that has filled up since is not forgiven, although the
// process has forgotten the bucket meanwhile.
func TestHandedOverSettlementOfAForgottenBucket(t *testing.T) {
	inBubble(t, Options{SettleWithin: time.Second, MaxBuckets: 2}, func(t *testing.T, w *world, l *Limiter) {
		lease := must(t, l, asks(Costs{"rpm": 5}, rpm10))
		for _, entity := range []string{"b", "c", "d"} {
			other := asks(Costs{"rpm": 1}, rpm10)
			other.Entity = entity
			must(t, l, other)
		}
		w.pass(time.Hour)
		check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 8}), lease.Commit(t.Context())))
		w.pass(1100 * time.Millisecond)
		synctest.Wait()
		wantGranted(t, w.process(Options{}), asks(Costs{"rpm": 1}, rpm10), 7)
	})
}

// A remembered denial ends when a settlement is handed over.
func TestHandedOverSettlementEndsADenial(t *testing.T) {
	_, l := newProcess(t, Options{SettleWithin: time.Minute})
	lease := must(t, l, asks(Costs{"rpm": 10}, rpm10))
	for range 2 {
		deniedBy(t, l, asks(Costs{"rpm": 5}, rpm10))
	}
	check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 2}), lease.Commit(t.Context())))
	must(t, l, asks(Costs{"rpm": 5}, rpm10))
	reservesNothing(t, l)
}

// Requests of this process are decided as if handed-over settlements were written: given-back
// tokens are granted in the write that gives them back, and debts deny.
func TestHandedOverSettlementsCountAsWritten(t *testing.T) {
	inBubble(t, Options{SettleWithin: time.Minute}, func(t *testing.T, w *world, l *Limiter) {
		settled(t, l, asks(Costs{"rpm": 10}, rpm10), Costs{"rpm": 2})
		w.db.ResetStats()
		settled(t, l, asks(Costs{"rpm": 5}, rpm10), Costs{"rpm": 9}) // of 8
		if n := w.db.Stats().WriteUnits; n != 1 || w.used(l, "rpm") != 7 {
			t.Errorf("%v writes, %d used, want 7", n, w.used(l, "rpm"))
		}
		deniedBy(t, l, asks(Costs{"rpm": 1}, rpm10))
		if err := l.Close(t.Context()); err != nil || w.used(l, "rpm") != 11 {
			t.Errorf("%v, %d used, want 11", err, w.used(l, "rpm"))
		}
	})
}

// A charge that settles meets every fault. If it is refused, the settlement goes with the next one;
// without an answer, it is unknown, and reported; nothing is ever settled twice.
func TestSettlingRidesUnderFaults(t *testing.T) {
	fails := func(applied bool, kind store.Kind) func(*world, *Limiter) (bool, error) {
		return func(*world, *Limiter) (bool, error) { return applied, memdynamo.Fail(kind) }
	}
	for name, c := range map[string]struct {
		hook func(*world, *Limiter) (bool, error)
		used []int64 // possible use: 2 of the lease, and 1 of the request if that was taken
		lost bool
	}{
		"somebody else writes first": {func(w *world, l *Limiter) (bool, error) {
			must(w.t, w.bystander(l), asks(Costs{"rpm": 3}, rpm10))
			return true, nil
		}, []int64{6}, false},
		"throttled":                {fails(false, store.Throttled), []int64{3}, false},
		"down":                     {fails(false, store.Unavailable), []int64{2}, false},
		"applied, answer lost":     {fails(true, store.Unknown), []int64{3}, true},
		"not applied, answer lost": {fails(false, store.Unknown), []int64{6}, true},
		"panic":                    {func(*world, *Limiter) (bool, error) { panic("client") }, []int64{6}, true},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w := newWorld(t)
			var mu sync.Mutex
			var told []string
			l := w.process(Options{SettleWithin: time.Minute, Timeout: time.Hour, Observe: only(EventSettle, func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprint(e.Costs, e.Writes, e.Err != nil))
			})})
			settled(t, l, asks(Costs{"rpm": 6}, rpm10), Costs{"rpm": 2})
			w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) { return c.hook(w, l) }))
			_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
			l.desks.Wait()
			w.db.SetHook(nil)
			if c.lost {
				reservesNothing(t, l)
			}
			check.Equal(t, c.lost, errors.Is(err, ErrUnknown), "the request: %v", err)
			check.NoError(t, l.Close(t.Context()))
			mu.Lock()
			defer mu.Unlock()
			if used := w.used(l, "rpm"); used != c.used[0] {
				t.Errorf("%d are used, want %d; reported %q", used, c.used[0], told)
			}
			if want := fmt.Sprint(Costs{"rpm": -4}, 0, true); c.lost && (len(told) != 1 || told[0] != want) {
				t.Errorf("reported %q, want %q", told, want)
			}
		}))
	}
}

// Settlements written alone meet faults, too: unwritten ones are retried, until Close reports them.
func TestSettlingAloneUnderFaults(t *testing.T) {
	for name, c := range map[string]struct {
		kind     store.Kind
		down, up time.Duration
		last     bool // the table is down again at the end
	}{
		"down":       {store.Unavailable, 10 * time.Second, 3 * time.Second, true},
		"a conflict": {store.Conflict, 30 * time.Second, 30 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{SettleWithin: time.Second, Timeout: time.Hour}, func(t *testing.T, w *world, l *Limiter) {
				settled(t, l, asks(Costs{"rpm": 6}, rpm10), Costs{"rpm": 2})
				var down atomic.Bool
				down.Store(true)
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					if down.Load() && isWrite(op) {
						return false, memdynamo.Fail(c.kind)
					}
					return true, nil
				})
				w.pass(c.down)
				synctest.Wait()
				check.Equal(t, w.used(l, "rpm"), 6, "used while nothing is written")
				down.Store(false)
				w.pass(c.up)
				synctest.Wait()
				check.Equal(t, w.used(l, "rpm"), 2, "used")
				if c.last {
					settled(t, l, asks(Costs{"rpm": 6}, rpm10), Costs{"rpm": 2})
					down.Store(true)
				}
				if err := l.Close(t.Context()); c.last != errors.Is(err, ErrUnavailable) || !c.last && err != nil {
					t.Errorf("%v, want ErrUnavailable: %v", err, c.last)
				}
			})
		})
	}
}

// A first-use quota of which requests take nothing, and only leases settle some, begins and ends
// normally.
func TestAQuotaThatIsOnlySettled(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		for _, cost := range []int64{10, 11} {
			inBubble(t, Options{SettleWithin: within}, func(t *testing.T, w *world, l *Limiter) {
				limits := []Limit{PerMinute("rpm", 100), Quota("q", 10, FromFirstUse(time.Hour))}
				settled(t, l, asks(Costs{"rpm": 1}, limits...), Costs{"q": cost})
				_, _ = l.Acquire(t.Context(), asks(Costs{"rpm": 1}, limits...))
				check.Must(t, l.Close(t.Context()))
				w.advance(30 * 24 * time.Hour)
				must(t, w.bystander(l), asks(Costs{"rpm": 1, "q": 1}, limits...))
			})
		}
	}
}

// Tokens given back to a finished period are not used for decisions: denials cost the same as
// without.
func TestLateRefundsDoNotDecide(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		inBubble(t, Options{SettleWithin: within}, func(t *testing.T, w *world, l *Limiter) {
			q := Quota("q", 10, Daily(""))
			lease := must(t, l, asks(Costs{"q": 8}, q))
			w.advance(24 * time.Hour)
			must(t, l, asks(Costs{"q": 10}, q))
			check.Must(t, errors.Join(lease.Settle(Costs{"q": 0}), lease.Commit(t.Context())))
			w.db.ResetStats()
			for range 10 {
				deniedBy(t, l, asks(Costs{"q": 5}, q))
			}
			if w.db.Stats().WriteUnits > 3 {
				t.Errorf("within %s: 10 denials cost %v writes", within, w.db.Stats().WriteUnits)
			}
		})
	}
}

// A waiting request is woken by tokens given back, even if settlements may wait.
func TestSettlingWakesAtOnce(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		inBubble(t, Options{SettleWithin: within}, func(t *testing.T, w *world, l *Limiter) {
			lease := must(t, l, asks(Costs{"rpm": 10}, rpm10))
			begin := time.Now()
			var took time.Duration
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := l.Wait(t.Context(), asks(Costs{"rpm": 8}, rpm10))
				if took = time.Since(begin); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 1}), lease.Commit(t.Context())))
			for range 70 {
				w.pass(time.Second)
			}
			wg.Wait()
			if took > time.Second {
				t.Errorf("within %s: it slept for %s", within, took)
			}
		})
	}
}

// Slots go back immediately, with the other settlements: other processes may wait for them.
func TestSlotsGoBackAtOnce(t *testing.T) {
	w := newWorld(t)
	req := asks(Costs{"tpm": 500, "jobs": 1}, PerMinute("tpm", 1000), InFlight("jobs", 1, time.Minute))
	for range 2 {
		l := w.process(Options{SettleWithin: time.Minute})
		settled(t, l, req, Costs{"tpm": 400})
		if used := w.used(l, "tpm"); used%400 != 0 {
			t.Errorf("%d are used", used)
		}
	}
}

// An observer that panics on a separate settlement does not end the program.
func TestAnObserverPanicsAtASettlement(t *testing.T) {
	opts := Options{SettleWithin: time.Second, Observe: only(EventSettle, func(Event) { panic("observer") })}
	inBubble(t, opts, func(t *testing.T, w *world, l *Limiter) {
		settled(t, l, asks(Costs{"rpm": 6}, rpm10), Costs{"rpm": 2})
		w.pass(5 * time.Second)
		synctest.Wait()
		check.Equal(t, w.used(l, "rpm"), 2, "used")
	})
}

// Without SettleWithin, settlements join the charges of their bucket and each other: 64 goroutines
// that take and settle at once write far less than once for each.
func TestSettlingJoinsAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := &told{}
		l := w.process(Options{Observe: s.observe})
		req := asks(Costs{"tpd": 500}, Quota("tpd", 10_000_000, Daily("")))
		settled(t, l, req, nil)
		w.db.SetHook(takes(5 * ms))
		w.db.ResetStats()
		before := s.sent()
		const goroutines, each = 64, 20
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for range each {
					lease, err := l.Acquire(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					check.NoError(t, errors.Join(lease.Settle(Costs{"tpd": 300}), lease.Commit(t.Context())))
				}
			})
		}
		all.Wait()
		writes := w.db.Stats().WriteUnits
		w.db.SetHook(nil)
		check.Equal(t, w.used(l, "tpd"), int64(500+goroutines*each*300), "used")
		t.Logf("%v writes for %d requests", writes, goroutines*each)
		if writes > goroutines*each/5 {
			t.Errorf("%v writes for %d requests, want a fifth at most", writes, goroutines*each)
		}
		if told := s.sent() - before; told != writes {
			t.Errorf("%d writes are reported of %d", told, writes)
		}
		reservesNothing(t, l)
	})
}

// A Commit ends with its context. It settles nothing unless its write was sent already, and says
// which: a lease that was not settled can be committed again.
func TestCommitEndsWithItsContext(t *testing.T) {
	for _, c := range []struct {
		name   string
		busy   bool // another write of the bucket is under way
		ends   time.Duration
		kind   error
		closed bool
	}{
		{"before", false, 0, ErrUnavailable, false},
		{"behind another write", true, 2 * ms, ErrUnavailable, false},
		{"with its write under way", false, 2 * ms, ErrUnknown, true},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			w := virtual(t, 5*ms)
			l := w.started(Options{Timeout: time.Second})
			lease := must(t, l, asks(Costs{"tpd": 300}, tpd1000))
			check.Must(t, lease.Settle(Costs{"tpd": 100}))
			if c.busy {
				go l.Acquire(t.Context(), asks(Costs{"tpd": 1}, tpd1000))
				time.Sleep(ms)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.ends)
			defer cancel()
			begin, err := time.Now(), lease.Commit(ctx)
			check.Is(t, err, c.kind, "committed")
			check.Equal(t, time.Since(begin), c.ends, "it took")
			time.Sleep(time.Second)
			left := map[bool]int64{false: 300, true: 100}[c.closed]
			if c.busy {
				left++
			}
			check.Equal(t, w.used(l, "tpd"), left, "used")
			again := lease.Commit(t.Context())
			if errors.Is(again, ErrLeaseClosed) != c.closed || !c.closed && again != nil {
				t.Errorf("once more: %v, closed %v", again, c.closed)
			}
		}))
	}
}

// Two settlements wait for a write of their bucket, and go out together in the next one, or with a
// charge, which meets every fault. Each caller gets the result, and nothing is settled twice.
func TestSettlingJoinedUnderFaults(t *testing.T) {
	fails := func(applied bool, kind store.Kind) func(*world, *Limiter) (bool, error) {
		return func(*world, *Limiter) (bool, error) { return applied, memdynamo.Fail(kind) }
	}
	panics := func(*world, *Limiter) (bool, error) { panic("client") }
	for name, c := range map[string]struct {
		hook func(*world, *Limiter) (bool, error)
		err  error
		used [2]int64 // without and with a charge
	}{
		"nothing": {func(*world, *Limiter) (bool, error) { return true, nil }, nil, [2]int64{300, 502}},
		"somebody else writes first": {func(w *world, l *Limiter) (bool, error) {
			must(w.t, w.bystander(l), asks(Costs{"tpd": 50}, tpd1000))
			return true, nil
		}, nil, [2]int64{350, 552}},
		"throttled":                {fails(false, store.Throttled), nil, [2]int64{300, 502}},
		"down":                     {fails(false, store.Unavailable), nil, [2]int64{300, 501}},
		"applied, answer lost":     {fails(true, store.Unknown), ErrUnknown, [2]int64{300, 502}},
		"not applied, answer lost": {fails(false, store.Unknown), ErrUnknown, [2]int64{700, 901}},
		"panic":                    {panics, ErrUnknown, [2]int64{700, 901}},
	} {
		for _, charge := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with a charge: %t", name, charge), func(t *testing.T) {
				inBubble(t, Options{Timeout: time.Hour}, func(t *testing.T, w *world, l *Limiter) {
					l.opts.Observe = only(EventSettle, func(e Event) {
						check.NoError(t, e.Err, "reported although the callers have the error")
					})
					var leases []*Lease
					for range 3 {
						lease := must(t, l, asks(Costs{"tpd": 300}, tpd1000))
						check.Must(t, lease.Settle(Costs{"tpd": 100}))
						leases = append(leases, lease)
					}
					fault := onCall(isWrite, 1, func(memdynamo.Op) (bool, error) { return c.hook(w, l) })
					w.db.SetHook(func(op memdynamo.Op) (bool, error) {
						time.Sleep(5 * time.Millisecond)
						return fault(op)
					})
					w.db.ResetStats()
					errs := make([]error, len(leases))
					acquire := func() { _, _ = l.Acquire(t.Context(), asks(Costs{"tpd": 1}, tpd1000)) }
					commit := func(i int) func() { return func() { errs[i] = leases[i].Commit(t.Context()) } }
					first, with := commit(0), func() {}
					if charge {
						first, with = acquire, acquire
					}
					var all sync.WaitGroup
					for _, f := range []func(){first, with, commit(1), commit(2)} {
						all.Go(f)
						time.Sleep(time.Millisecond)
					}
					all.Wait()
					l.desks.Wait()
					w.db.SetHook(nil)
					for i, err := range errs[1:] {
						if !errors.Is(err, c.err) || c.err == nil && err != nil {
							t.Errorf("caller %d: %v, want %v", i, err, c.err)
						}
						check.Is(t, leases[1+i].Commit(t.Context()), ErrLeaseClosed, "caller %d once more", i)
					}
					if n := w.db.Stats().Calls(); name == "nothing" && n != 2 {
						t.Errorf("%d calls, want 2", n)
					}
					want := c.used[0]
					if charge {
						want = c.used[1]
					}
					check.Equal(t, w.used(l, "tpd"), want, "used")
					reservesNothing(t, l)
				})
			})
		}
	}
}

var tpd1000 = Quota("tpd", 1000, Daily(""))
