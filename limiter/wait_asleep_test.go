package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Sleepers continue sooner when a request before them leaves, and only those.
func TestWaitersBehindACanceledOneGoOn(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		begin := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[string]string{}
		wait := func(who string, ctx context.Context, cost int64) {
			all.Go(func() {
				_, err := l.Wait(ctx, asks(Costs{"rpm": cost}, rpm10))
				mu.Lock()
				defer mu.Unlock()
				got[who] = fmt.Sprint(kindName(err), " ", time.Since(begin).Round(time.Second))
			})
			time.Sleep(100 * time.Millisecond)
		}
		leaves, leave := context.WithCancel(t.Context())
		wait("before", t.Context(), 2)
		wait("leaves", leaves, 5)
		wait("behind", t.Context(), 1)
		wait("last", t.Context(), 2)
		time.Sleep(5 * time.Second)
		leave()
		all.Wait()
		want := "map[before:granted 12s behind:granted 18s last:granted 30s leaves:unavailable 5s]"
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// A cascade sleeps for the level with the longest debt.
func TestCascadeSleepsForBothLevels(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		w.entity(l, acme, "org")
		w.entity(l, "org", "")
		w.configure(l, "", "", rpm10)
		w.configure(l, "org", gpt, PerMinute("rpm", 20))
		parent := must(t, l, Request{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 10}})
		child := must(t, l, stored(Costs{"rpm": 10}))
		begin := time.Now()
		done := make(chan time.Duration)
		go func() {
			waits(t, l, stored(Costs{"rpm": 6}))
			done <- time.Since(begin).Round(time.Second)
		}()
		time.Sleep(time.Second)
		parent.Rollback(t.Context()) // the child's debt is still 6
		time.Sleep(time.Second)
		child.Settle(Costs{"rpm": 6})
		child.Commit(t.Context())
		check.Equal(t, <-done, 12*time.Second, "went on after, want the 12s in which two come back")
	})
}

// When a lease on several shards gives tokens back, the sleepers behind it are woken as well. Two
// shards of 5 refill one token in two seconds each. The last request has a debt of 6 on each of
// them, which is 12 seconds. If a waiter before it leaves, it is 3, and 1 if a lease of 10 cost
// nothing.
func TestWaitersBehindALeaseOnSeveralShards(t *testing.T) {
	limit := PerMinute("rpm", 60).WithCapacity(10)
	for _, c := range []struct {
		name string
		// before takes all tokens of the shards, and 6 more, and returns a function that gives
		// back.
		before func(*testing.T, *Limiter) (end func() error)
		slept  time.Duration
	}{
		{"one that waits leaves", func(t *testing.T, l *Limiter) func() error {
			must(t, l, asks(Costs{"rpm": 10}, limit))
			lease, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 6}, limit))
			check.Must(t, err)
			return func() error { return lease.Rollback(t.Context()) }
		}, 6 * time.Second},
		{"it settles less", func(t *testing.T, l *Limiter) func() error {
			first := must(t, l, asks(Costs{"rpm": 10}, limit))
			_, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 6}, limit))
			check.Must(t, err)
			check.Must(t, first.Settle(Costs{"rpm": 0}))
			return func() error { return first.Commit(t.Context()) }
		}, 2 * time.Second},
		{"it has charged more, elsewhere", func(t *testing.T, l *Limiter) func() error {
			first := must(t, l, asks(Costs{"rpm": 5}, limit))
			check.Must(t, first.Charge(t.Context(), Costs{"rpm": 5}))
			_, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 6}, limit))
			check.Must(t, err)
			check.Must(t, first.Settle(Costs{"rpm": 0}))
			return func() error { return first.Commit(t.Context()) }
		}, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
				l := process()
				must(t, l, asks(Costs{"rpm": 0}, limit))
				w.split(l, 2)
				end := c.before(t, l)
				done := asleepFor(t, l, asks(Costs{"rpm": 6}, limit)) // 12 s
				time.Sleep(time.Second)
				check.Must(t, end())
				check.Equal(t, (<-done).Round(time.Second), c.slept, "slept for")
			})
		})
	}
}

// leavers is clients of each process that wait again and again for some tokens, and sometimes
// leave: at a deadline known in advance, if there is one, or without. Each grant is reported at the
// instant at which its caller continues.
func leavers(ctx context.Context, processes []*Limiter, clients int, r *rand.Rand, limit Limit, deadline, leaves int,
	granted func(cost int64)) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, l := range processes {
		for range clients {
			r := rand.New(rand.NewPCG(r.Uint64(), 4))
			all.Go(func() {
				for ctx.Err() == nil {
					each, leave := context.WithCancel(ctx)
					if r.IntN(3) == 0 {
						time.AfterFunc(time.Duration(r.IntN(leaves))*time.Millisecond, leave)
					} else if deadline > 0 {
						each, leave = context.WithTimeout(ctx, time.Duration(200+r.IntN(deadline))*time.Millisecond)
					}
					cost := 1 + r.Int64N(15)
					_, err := l.Wait(each, asks(Costs{"rpm": cost}, limit))
					leave()
					if err != nil {
						time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
						continue
					}
					mu.Lock()
					granted(cost)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
}

// However many leave, the requests that continue never exceed the limit: no sleeper uses returned
// tokens that later requests take as well. Without waking, the worst excess of these schedules is 7
// tokens, and 14 on two shards.
//
// A request with a debt on both shards begins when the later debt is paid back. The other shard has
// refilled its part by then, and continues to refill for others. These waiting tokens are at most
// the refill of a shard while a debt of its whole share is paid back: its share, 10 tokens. Either
// shard may be the early one, for different requests, so the two see up to the capacity on top.
// Another test covers waking the sleepers behind several shards.
func TestWakingAdmitsNoMore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			limit := PerSecond("rpm", 20)
			l := process()
			spare := int64(0)
			if seed%2 == 1 { // costs above 10 take from both shards
				spare = 20 * bucket.Milli
				must(t, l, asks(Costs{"rpm": 0}, limit))
				w.split(l, 2)
			}
			var history buckettest.History
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			leavers(ctx, []*Limiter{l}, 12, rand.New(rand.NewPCG(seed, 3)), limit, 2500, 900, func(cost int64) {
				history.Take(time.Now().UnixMilli(), cost*bucket.Milli)
			})
			s := limit.stored()
			worst := history.Worst(bucket.Rate{Capacity: s.Capacity + spare, Amount: s.Amount, Period: s.Period}, 4)
			if worst.Excess > 0 { // answers take 2 ms
				t.Errorf("seed %d: worst excess %v", seed, worst)
			}
		})
	}
}

// However many leave in other processes, the continuing requests have never got more in total than
// the limit has allowed by then.
func TestLooksAdmitNoMoreInAll(t *testing.T) {
	t.Parallel()
	limit := PerMinute("rpm", 60).WithCapacity(30)
	for seed := range uint64(5) {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			begin, went := time.Now(), int64(0)
			all := []*Limiter{process(), process(), process()}
			leavers(ctx, all, 5, rand.New(rand.NewPCG(seed, 5)), limit, 0, 20_000, func(cost int64) {
				went += cost
				if may := limit.Capacity + int64(time.Since(begin)/time.Second) + 1; went > may {
					t.Errorf("seed %d: %d tokens by %s, want at most %d", seed, went, time.Since(begin), may)
				}
			})
		})
	}
}

// asleepFor starts a waiting request, and sends how long it slept after it was charged.
func asleepFor(t *testing.T, l *Limiter, req Request) <-chan time.Duration {
	done, begin := make(chan time.Duration, 1), time.Now()
	go func() {
		waits(t, l, req)
		done <- time.Since(begin)
	}()
	time.Sleep(100 * time.Millisecond)
	return done
}

// A sleeper of several minutes notices within seconds that an operator has reset the bucket, or
// that another process has given back. All sleepers of a process share one look.
func TestSleepersNoticeTokensOfOthers(t *testing.T) {
	for name, put := range map[string]func(*world, *Limiter, *Lease){
		"a reset": func(w *world, l *Limiter, _ *Lease) { w.edit(l, 0, item.Item{"b_rpm_tk": item.N(10_000)}) },
		"given back": func(w *world, _ *Limiter, before *Lease) {
			check.NoError(w.t, before.Rollback(w.t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
				l, other := process(), process()
				must(t, l, asks(Costs{"rpm": 1}, rpm10))
				before, _ := reserved(t, other, asks(Costs{"rpm": 10}, rpm10))
				w.db.ResetStats()
				first := asleepFor(t, l, asks(Costs{"rpm": 4}, rpm10))  // a debt of 5: 30 s
				second := asleepFor(t, l, asks(Costs{"rpm": 5}, rpm10)) // a debt of 10: 60 s
				time.Sleep(10 * time.Second)
				put(w, l, before)
				for i, done := range []<-chan time.Duration{first, second} {
					if took := <-done; took > 16*time.Second {
						t.Errorf("%d slept for %s, want no longer than until the next look", i, took)
					}
				}
				check.Equal(t, w.db.Stats().Reads, 1, "reads, want one for both")
			})
		})
	}
}

// Tokens charged for a lease that was closed meanwhile are given back.
func TestChargeOnALeaseThatIsClosedMeanwhile(t *testing.T) {
	for name, end := range map[string]func(*Lease, context.Context) error{
		"rollback": (*Lease).Rollback, "commit": (*Lease).Commit,
	} {
		w, l := newProcess(t, Options{})
		lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
		w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) {
			check.NoError(t, end(lease, t.Context()))
			return true, nil
		}))
		err := lease.Charge(t.Context(), Costs{"rpm": 3})
		w.db.SetHook(nil)
		want := map[string]int64{"rollback": 0, "commit": 2}[name]
		if got := w.used(l, "rpm"); !errors.Is(err, ErrLeaseClosed) || got != want {
			t.Errorf("%s: %v, %d used, want ErrLeaseClosed and %d", name, err, got, want)
		}
	}
}

// A request that waits for one limit has taken from the other when it was called: that one is full
// again when the request begins.
func TestWaitTakesFromAllLimitsAtTheCall(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		w.db.SetHook(nil)
		tps := PerSecond("tps", 10)
		must(t, l, asks(Costs{"rpm": 10}, rpm10, tps))
		lease, after, err := l.Reserve(t.Context(), asks(Costs{"rpm": 1, "tps": 10}, rpm10, tps))
		if err != nil || after != 6*time.Second {
			t.Fatalf("%v, after %s", err, after)
		}
		for _, s := range lease.Status() {
			if s.Limit == "tps" && s.Remaining != 0 {
				t.Errorf("%+v, want none left when it asks", s)
			}
		}
		time.Sleep(after)
		must(t, l, asks(Costs{"tps": 10}, rpm10, tps))
	})
}

// If the costs of a failed request could not be given back, they may be taken, whatever other error
// occurred. A missing permission stays one, and so does every error if the costs were given back.
func TestCostsThatWereNotGivenBackAreUnknown(t *testing.T) {
	notBack := []desk.Trouble{{Op: "rollback", Name: acmeGPT, Errs: []error{memdynamo.Fail(store.Unavailable)}}}
	notSetUp := []desk.Trouble{{Op: "rollback", Name: acmeGPT, Errs: []error{memdynamo.Fail(store.Setup)}}}
	for _, c := range []struct {
		err  error
		back []desk.Trouble
		want store.Kind
	}{
		{memdynamo.Fail(store.Unavailable), nil, store.Unavailable},
		{memdynamo.Fail(store.Throttled), notBack, store.Unknown},
		{memdynamo.Fail(store.Unavailable), notBack, store.Unknown}, {memdynamo.Fail(store.Setup), notBack, store.Setup},
		{memdynamo.Fail(store.Setup), nil, store.Setup}, {ErrUnreadable, notBack, store.Unknown}, {ErrUnreadable, nil, 0},
		{ErrUnreadable, notSetUp, store.Unknown}, // it is unknown whether the costs are taken
	} {
		got := failure(desk.Reply{Err: c.err, Others: c.back})
		_, told := errors.AsType[*SettleError](got)
		if store.KindOf(got) != c.want || !errors.Is(got, c.err) || told != (c.back != nil) ||
			told && !strings.Contains(got.Error(), c.err.Error()+"\n"+outcome("rollback", acmeGPT, c.back[0].Errs[0]).Error()) {
			t.Errorf("%v, and given back: %v: got %v, want %v", c.err, c.back, got, c.want)
		}
	}
}

// If a waiting request gets no decision on one level, it leaves no debt on another: everything is
// given back, and a lease by policy may start immediately.
func TestWaitOwesNothingWithoutADecision(t *testing.T) {
	for _, policy := range []Policy{PolicyAllow, PolicyLocal} {
		w, l := family(t, 100, Options{})
		must(t, l, stored(Costs{"rpm": 10}))
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if isWrite(op) {
				if _, entity, _, _, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); entity == "org" {
					return false, memdynamo.Fail(store.Unknown)
				}
			}
			return true, nil
		})
		req := stored(Costs{"rpm": 1})
		req.OnUnavailable = policy
		lease, after, err := l.Reserve(t.Context(), req)
		w.db.SetHook(nil)
		if err != nil || lease.Charged() || after != 0 {
			t.Errorf("%v: charged %v, goes on after %s, %v", policy, lease.Charged(), after, err)
		}
		w.wantSpent(l, policy.String(), map[string]int64{acme: 10})
	}
}

// Each failed give-back of a shard is classified separately: the caller and the observer see that
// one may have been written, whatever error another shard returned first.
func TestEachFailedGiveBackIsClassified(t *testing.T) {
	first, second := memdynamo.Fail(store.Unavailable), memdynamo.Fail(store.Unknown)
	got := failure(desk.Reply{Err: &desk.Denied{}, Others: []desk.Trouble{
		{Op: "rollback", Name: acmeGPT, Errs: []error{first, second}}}})
	if !errors.Is(got, ErrUnknown) || !errors.Is(got, ErrUnavailable) || !errors.Is(got, ErrLimited) {
		t.Errorf("%v", got)
	}
	e, ok := eventOf(desk.Event{Kind: desk.Returned, Name: acmeGPT, Errs: []error{first, second}})
	if !ok || !errors.Is(e.Err, ErrUnknown) || !errors.Is(e.Err, ErrUnavailable) {
		t.Errorf("%v", e.Err)
	}
}
