package limiter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
)

// Small bursts get what an exact bucket gives to the same arrivals: all of it where
// a process is alone, and nearly all where sixteen share the bucket and each plans
// from the image of its own last request. Where the bucket is seldom empty that takes about one write each.
func TestSmallBursts(t *testing.T) {
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
			exact := buckettest.NewReference(bucket.Rate{Capacity: stored.Capacity, Amount: stored.Amount,
				Period: stored.Period}, w.now.Load())
			mean := float64(c.limit.Period) / float64(c.limit.Refill) / c.load
			at, granted, due := float64(w.now.Load()), 0, 0
			w.db.ResetStats()
			for range 4000 {
				at += r.ExpFloat64() * mean / float64(time.Millisecond)
				w.now.Store(int64(at))
				if exact.Level(w.now.Load()).Cmp(buckettest.Milli(1000)) >= 0 {
					exact.Take(w.now.Load(), 1000)
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
