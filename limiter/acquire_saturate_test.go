package limiter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestSaturation (I6): clients with unlimited demand get all that the limit refills: at least 99 %
// of the rate with one shard, 95 % with eight, and never more than capacity and rate allow (I1).
// Time is virtual; every call takes two milliseconds.
func TestSaturation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit     Limit
		shards    int
		clients   int
		processes bool // a process per client, or one for all
		least     float64
	}{
		{PerSecond("rps", 50), 1, 1, false, 99},
		{PerSecond("rps", 50), 1, 32, false, 99},
		{PerSecond("rps", 50), 1, 32, true, 99},
		{PerMinute("rpm", 600), 1, 32, true, 99},
		{PerSecond("rps", 160), 8, 1, false, 95},
		{PerSecond("rps", 160), 8, 32, false, 95},
		{PerSecond("rps", 160), 8, 32, true, 95},
	} {
		t.Run(fmt.Sprintf("%s/%d shards/%d clients/own caches %v", c.limit, c.shards, c.clients, c.processes),
			func(t *testing.T) {
				inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
					first := process()
					req := asks(Costs{c.limit.Name: 1}, c.limit)
					must(t, first, req).Rollback(t.Context())
					w.split(first, c.shards)
					w.db.ResetStats()
					// Tokens left at the end count as not delivered, even if they would be granted
					// a moment later: up to half a second's worth if a denial requires such a wait.
					length := 24 * time.Second
					if c.processes && c.shards > 1 {
						length = 3 * time.Second
					}
					begin := time.Now()
					var mu sync.Mutex
					var history buckettest.History
					granted, denied, failed := 0, 0, 0
					var wg sync.WaitGroup
					for range c.clients {
						p := first
						if c.processes {
							p = process()
						}
						wg.Go(func() {
							for time.Since(begin) < length {
								_, err := p.Acquire(t.Context(), req)
								d, limited := errors.AsType[*LimitError](err)
								mu.Lock()
								switch {
								case err == nil:
									granted++
									history.Take(time.Now().UnixMilli(), 1000)
								case limited:
									denied++
								default:
									failed++
								}
								mu.Unlock()
								if limited {
									time.Sleep(d.RetryAfter)
								}
							}
						})
					}
					wg.Wait()
					took := time.Since(begin)
					calls := w.db.Stats().Calls()
					earned := float64(c.limit.Capacity) + float64(c.limit.Refill)*length.Seconds()/c.limit.Period.Seconds()
					delivered := 100 * float64(granted+1) / earned
					stored := c.limit.stored()
					// Answers arrive up to 2 ms after the write.
					worst := history.Worst(bucket.Rate{Capacity: stored.Capacity, Amount: stored.Amount, Period: stored.Period}, 2)
					t.Logf("delivered %.2f %% of what was earned in %s: %d granted, %d denied, %d failed, %.2f calls per granted "+
						"request, worst excess %v",
						delivered, took, granted, denied, failed, float64(calls)/float64(granted), worst)
					if delivered < c.least {
						t.Errorf("delivered %.2f %%, want at least %.0f %%", delivered, c.least)
					}
					if worst.Excess > 0 {
						t.Errorf("worst excess %v", worst)
					}
					if failed > 0 {
						t.Errorf("%d calls failed", failed)
					}
				})
			})
	}
}

// Small bursts get the grants of an exact bucket with the same arrivals: all of them if a process
// is alone, and nearly all if sixteen share the bucket and each plans from the image of its own
// last request. If the bucket is rarely empty, that takes about one write each.
func TestSmallBursts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit     Limit
		processes int
		load      float64 // of the rate
		least     float64 // percent of what an exact bucket grants
		most      float64 // writes per grant
	}{
		{PerSecond("rps", 60).WithCapacity(3), 1, 0.9, 100, 1.01},
		{PerSecond("rps", 60).WithCapacity(3), 1, 3, 100, 1.01},
		{PerSecond("rps", 60).WithCapacity(3), 16, 0.5, 99, 2.2},
		{PerSecond("rps", 60).WithCapacity(3), 16, 0.9, 99, 2.2},
		{PerSecond("rps", 60).WithCapacity(3), 16, 3, 99, 4},
		{PerSecond("rps", 10).WithCapacity(10), 16, 0.9, 99, 1.7},
		{PerMinute("rpm", 600), 16, 0.9, 99, 1.1},
		{PerMinute("rpm", 1000), 10, 0.5, 99, 1.05},
	} {
		t.Run(fmt.Sprintf("%s/%d processes/load %v", c.limit, c.processes, c.load), func(t *testing.T) {
			w := newWorld(t)
			r := rand.New(rand.NewPCG(1, uint64(c.processes)))
			var ls []*Limiter
			for range c.processes {
				ls = append(ls, w.process(Options{}))
			}
			stored := c.limit.stored()
			exact := buckettest.NewExact(stored.Capacity, 0, bucket.Rate{Capacity: stored.Capacity, Amount: stored.Amount,
				Period: stored.Period})
			mean := float64(c.limit.Period) / float64(c.limit.Refill) / c.load
			at, granted, due := float64(w.now.Load()), 0, 0
			w.db.ResetStats()
			for range 1500 {
				at += r.ExpFloat64() * mean / float64(time.Millisecond)
				exact = exact.After(int64(at) - w.now.Load())
				w.now.Store(int64(at))
				if exact.Covers(1000) {
					exact.Level.Sub(exact.Level, buckettest.Milli(1000))
					due++
				}
				switch _, err := ls[r.IntN(len(ls))].Acquire(t.Context(), asks(Costs{c.limit.Name: 1}, c.limit)); {
				case err == nil:
					granted++
				case !errors.Is(err, ErrLimited):
					t.Fatal(err)
				}
			}
			got := 100 * float64(granted) / float64(due)
			writes := float64(w.db.Stats().Calls()) / float64(granted)
			t.Logf("%.1f %% of the %d that an exact bucket grants, %.2f writes per grant", got, due, writes)
			if got < c.least || c.processes == 1 && granted != due {
				t.Errorf("%d granted, an exact bucket grants %d; want %.0f %%", granted, due, c.least)
			}
			if writes > c.most {
				t.Errorf("%.3f writes per grant, want at most %.2f", writes, c.most)
			}
		})
	}
}

// Limits that are no longer wanted stay stored, because dropping and adding them again must not
// refill them. So a bucket may get more limits than one condition can name. It can still be
// charged, settled and refilled, and no limit is refilled by returning.
func TestBucketOfEverNewLimits(t *testing.T) {
	w, l := newProcess(t, Options{})
	const names = 80
	ask := func(i int) (Limit, Request) {
		limit := PerMinute(fmt.Sprintf("tpm-%02d", i), 100)
		return limit, asks(Costs{limit.Name: 60}, limit)
	}
	for i := range names {
		limit, req := ask(i)
		lease := must(t, l, req)
		check.Must(t, adjustThenCommit(Costs{limit.Name: 30})(t.Context(), lease), "limit %d: settle", i)
		w.wantHeld(l, limit, 10)
		w.advance(100 * time.Millisecond)
	}
	check.MustEqual(t, len(w.shards(l, acme, gpt)[0].State.Slots), names+1,
		"limits are stored, want %d and the meter", names)
	for _, i := range []int{0, names / 2, names - 1} {
		if _, req := ask(i); drain(t, l, req) != 0 {
			t.Errorf("limit %d has been refilled", i)
		}
	}
}
