package limiter

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// aheadWorld is clients of some processes that may prefetch, for three keys and possibly their
// parent. Each grant counts at the instant at which its caller continues.
type aheadWorld struct {
	*testing.T
	seed  uint64
	trip  time.Duration // at most
	child Limit         // of each key
	org   Limit         // of the parent; without a name: there is none
	jobs  bool          // each request takes a slot, too

	mu      sync.Mutex
	history map[string]*buckettest.History // by entity
	local   int                            // grants without a call
	waits   int                            // requests that waited, and were granted
}

// granted counts the tokens granted to a request, at this instant.
func (a *aheadWorld) granted(key string, cost int64, waited bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, entity := range []string{key, "org"} {
		if a.history[entity] == nil {
			a.history[entity] = &buckettest.History{}
		}
		a.history[entity].Take(time.Now().UnixMilli(), cost*bucket.Milli)
	}
	if waited {
		a.waits++
	}
}

// client sends requests until its context ends.
func (a *aheadWorld) client(ctx context.Context, l *Limiter, r *rand.Rand) {
	for ctx.Err() == nil {
		key := string("xyz"[r.IntN(3)])
		cost := 1 + r.Int64N(3)
		req := Request{Entity: key, Resource: gpt, Costs: Costs{"rps": cost}}
		if a.jobs {
			req.Costs["jobs"] = 1
		}
		switch begin := time.Now(); r.IntN(12) {
		case 0: // waits
			each, leave := context.WithTimeout(ctx, time.Duration(20+r.IntN(1500))*time.Millisecond)
			if _, err := l.Wait(each, req); err == nil {
				a.granted(key, cost, time.Since(begin) > 2*a.trip)
			}
			leave()
		case 1: // reserves, and continues later
			_, after, err := l.Reserve(ctx, req)
			if err != nil {
				break
			}
			time.Sleep(after)
			a.granted(key, cost, after > 0)
		default:
			lease, err := l.Acquire(ctx, req)
			if err != nil {
				break
			}
			if a.granted(key, cost, false); time.Since(begin) == 0 {
				a.mu.Lock()
				a.local++
				a.mu.Unlock()
			}
			if a.jobs {
				time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
				_ = lease.Commit(ctx)
			}
		}
		time.Sleep(time.Duration(r.IntN(1+r.IntN(60))) * time.Millisecond)
	}
}

// play runs for some seconds, in which a bucket may be split.
func (a *aheadWorld) play() {
	inTime(a.T, func(t *testing.T, w *world, process func() *Limiter) {
		r := rand.New(rand.NewPCG(a.seed, 11))
		a.history = map[string]*buckettest.History{}
		first := process()
		for _, key := range []string{"x", "y", "z"} {
			if a.org.Name != "" {
				w.entity(first, key, "org")
			} else {
				w.entity(first, key, "")
			}
			if limits := []Limit{a.child}; a.jobs {
				w.configure(first, key, gpt, append(limits, InFlight("jobs", 200, epoch))...)
			} else {
				w.configure(first, key, gpt, limits...)
			}
		}
		if a.org.Name != "" {
			w.entity(first, "org", "")
			w.configure(first, "org", gpt, a.org)
		}
		var pauses sync.Mutex
		trips := rand.New(rand.NewPCG(a.seed, 12))
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			pauses.Lock()
			d := 1 + time.Duration(trips.Int64N(int64(a.trip)))
			pauses.Unlock()
			time.Sleep(d.Round(time.Millisecond))
			return true, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 1 + a.seed%3 {
			l := process()
			defer l.desks.Wait()
			l.opts.Ahead = []time.Duration{0, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}[r.IntN(4)]
			for range 4 + r.IntN(8) {
				r := rand.New(rand.NewPCG(a.seed, r.Uint64()))
				all.Go(func() { a.client(ctx, l, r) })
			}
		}
		if a.seed%2 == 0 {
			time.Sleep(3 * time.Second)
			w.splitOf(first, "x", 2)
		}
		all.Wait()
	})
}

// However requests are granted, from prefetched tokens, with a write, after a wait or a
// reservation, alone or with a parent, on one shard or two: no window of time has more grants than
// the limit allows, plus the refill while a write is under way, whose instant is when it was sent.
// A level of a cascade may be sent three times.
func TestWindowsAreExactWithPrefetchAndWaits(t *testing.T) {
	t.Parallel()
	seeds := 8
	if n, err := strconv.Atoi(os.Getenv("AHEAD_WORLDS")); err == nil {
		seeds = n
	}
	local, waits := 0, 0
	for seed := range uint64(seeds) {
		rate := []int64{100, 1000}[seed/2%2] // far less than the demand, or about as much
		a := &aheadWorld{T: t, seed: seed, trip: 20 * time.Millisecond,
			child: PerSecond("rps", rate).WithCapacity(rate/5 + int64(seed%40)*rate/30), jobs: seed%4 == 1}
		late := a.trip.Milliseconds() + 1 // instants are cut to milliseconds
		if seed%4 == 3 {
			a.org = PerSecond("rps", 3*rate/2).WithCapacity(rate / 2)
			late *= decide.MaxTrips
		}
		a.play()
		for entity, h := range a.history {
			limit := a.child
			if entity == "org" {
				if limit = a.org; limit.Name == "" {
					continue
				}
			}
			s := limit.stored()
			worst := h.Worst(bucket.Rate{Capacity: s.Capacity, Amount: s.Amount, Period: s.Period}, 0)
			if worst.Excess > 1000*(late*s.Amount/s.Period) {
				t.Errorf("seed %d: worst excess of %s is %v", seed, entity, worst)
			}
		}
		local, waits = local+a.local, waits+a.waits
	}
	t.Logf("%d grants without a call, %d after a wait", local, waits)
	if local == 0 || waits == 0 {
		t.Error("no request was granted from held tokens, or none waited")
	}
}
