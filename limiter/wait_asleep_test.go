package limiter

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
)

// Those who sleep go on sooner when somebody leaves from before them, and only those.
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

// So they do when a lease that they wait behind has cost less than it took, but not
// for one that was taken after them.
func TestWaitersBehindALeaseThatSettlesLess(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, other := process(), process()
		first := must(t, l, asks(Costs{"rpm": 10}, rpm10))
		begin := time.Now()
		done := make(chan string)
		go func() {
			_, err := l.Wait(t.Context(), asks(Costs{"rpm": 5}, rpm10))
			done <- fmt.Sprint(kindName(err), " ", time.Since(begin).Round(time.Second))
		}()
		time.Sleep(time.Second)
		later, _ := reserved(t, l, asks(Costs{"rpm": 5}, rpm10))
		if err := later.Rollback(t.Context()); err != nil { // it came after
			t.Fatal(err)
		}
		reserved(t, other, asks(Costs{"rpm": 3}, rpm10))
		time.Sleep(3 * time.Second)
		first.Settle(Costs{"rpm": 7})
		fine(t, first.Commit(t.Context()))
		if got := <-done; got != "granted 12s" {
			t.Errorf("%s, want granted after the time of two tokens", got)
		}
	})
}

// A cascade sleeps for the level that owes longest.
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
		parent.Rollback(t.Context()) // the child owes 6 still
		time.Sleep(time.Second)
		child.Settle(Costs{"rpm": 6})
		child.Commit(t.Context())
		if got := <-done; got != 12*time.Second {
			t.Errorf("went on after %s, want the 12s in which two come back", got)
		}
	})
}

// However many leave, what goes on is never more than the limit allows: nobody sleeps
// on tokens that came back, while those who come later take as many. Without waking,
// the worst excess of these schedules is 7 tokens, and 14 on two shards.
//
// A request that owes on both shards begins when the later debt is paid back. The other shard has
// earned its part by then, and goes on earning for others. What waits so is at most what a shard
// earns while a debt of its whole share is paid back: its share, 10 tokens. Both shards may be the
// early one, each for another request, so the two see up to the capacity on top. That those who
// sleep behind several shards are woken is played below.
func TestWakingAdmitsNoMore(t *testing.T) {
	for seed := range uint64(20) {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			limit := PerSecond("rpm", 20)
			l := process()
			spare := int64(0)
			if seed%2 == 1 { // costs above 10 take from both shards
				spare = 20 * bucket.Milli
				must(t, l, asks(Costs{"rpm": 0}, limit))
				w.split(l, 2)
			}
			r := rand.New(rand.NewPCG(seed, 3))
			var history buckettest.History
			var mu sync.Mutex
			var all sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for range 12 {
				seeds := r.Uint64()
				all.Go(func() {
					r := rand.New(rand.NewPCG(seeds, 4))
					for ctx.Err() == nil {
						each, leave := context.WithTimeout(ctx, time.Duration(200+r.IntN(2500))*time.Millisecond)
						cost := 1 + r.Int64N(15)
						if r.IntN(3) == 0 { // leaves without a deadline that is known before
							each, leave = context.WithCancel(ctx)
							stop := time.AfterFunc(time.Duration(r.IntN(900))*time.Millisecond, leave)
							defer stop.Stop()
						}
						_, err := l.Wait(each, asks(Costs{"rpm": cost}, limit))
						leave()
						if err != nil {
							time.Sleep(50 * time.Millisecond)
							continue
						}
						at := time.Now().UnixMilli()
						mu.Lock()
						history.Take(at, cost*bucket.Milli)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			s := limit.stored()
			worst := history.Worst(bucket.Rate{Capacity: s.Capacity, Amount: s.Amount, Period: s.Period})
			if worst.Milli.Cmp(big.NewRat(4*s.Amount+spare*s.Period, s.Period)) > 0 { // answers take 2 ms
				t.Errorf("seed %d: worst excess %v", seed, worst)
			}
		})
	}
}

// What a lease gives back that has taken from several shards, those who sleep behind it hear as
// well. Two shards of 5 earn a token in two seconds each. Who comes last owes 6 on each of them,
// which is 12 seconds. If one leaves that waits, it is 3, and 1 if a lease of 10 cost nothing.
func TestWaitersBehindALeaseOnSeveralShards(t *testing.T) {
	limit := PerMinute("rpm", 60).WithCapacity(10)
	for _, c := range []struct {
		name string
		// before takes all that the shards hold, and 6 more, and returns what gives back.
		before func(*testing.T, *Limiter) (end func() error)
		slept  time.Duration
	}{
		{"one that waits leaves", func(t *testing.T, l *Limiter) func() error {
			must(t, l, asks(Costs{"rpm": 10}, limit))
			lease, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 6}, limit))
			fine(t, err)
			return func() error { return lease.Rollback(t.Context()) }
		}, 6 * time.Second},
		{"it settles less", func(t *testing.T, l *Limiter) func() error {
			first := must(t, l, asks(Costs{"rpm": 10}, limit))
			_, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 6}, limit))
			fine(t, err)
			fine(t, first.Settle(Costs{"rpm": 0}))
			return func() error { return first.Commit(t.Context()) }
		}, 2 * time.Second},
		{"it has charged more, elsewhere", func(t *testing.T, l *Limiter) func() error {
			first := must(t, l, asks(Costs{"rpm": 5}, limit))
			fine(t, first.Charge(t.Context(), Costs{"rpm": 5}))
			_, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 6}, limit))
			fine(t, err)
			fine(t, first.Settle(Costs{"rpm": 0}))
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
				fine(t, end())
				if took := (<-done).Round(time.Second); took != c.slept {
					t.Errorf("slept for %s, want %s", took, c.slept)
				}
			})
		})
	}
}
