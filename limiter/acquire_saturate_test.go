package limiter

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// TestSaturation (I6): clients that always want more get all that the limit
// earns: at least 99 % of the rate with one shard, 95 % with eight, and never a
// token more than capacity and rate allow (I1). Time is virtual; every call takes
// two milliseconds of it.
func TestSaturation(t *testing.T) {
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
				synctest.Test(t, func(t *testing.T) {
					db := memdynamo.New(func() int64 { return time.Now().UnixMilli() })
					w := &world{t: t, db: db}
					process := func() *Limiter {
						l, err := open(t.Context(), db, &Options{Register: true, Timeout: 10 * time.Second})
						if err != nil {
							t.Fatal(err)
						}
						return l
					}
					first := process()
					req := asks(Costs{c.limit.Name: 1}, c.limit)
					must(t, first, req).Rollback(t.Context())
					w.split(first, c.shards)
					db.SetHook(func(op memdynamo.Op) (bool, error) {
						time.Sleep(2 * time.Millisecond)
						return true, nil
					})
					db.ResetStats()
					// What is there when the time is over, and would be had a moment later, counts as not
					// delivered: up to half a second's worth, where a denial has said to wait so long.
					length := 72 * time.Second
					switch {
					case c.processes && c.shards > 1:
						length = 3 * time.Second
					case c.processes:
						length = 24 * time.Second
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
					calls := db.Stats().Calls()
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
