package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// contentionFor is how long one setting of BenchmarkContention runs.
const contentionFor = 3 * time.Second

// BenchmarkContention lets limiters with caches of their own, as many processes
// have, take from one bucket of 200 tokens a second that is not allowed to split.
// Below its rate they ask for half of it together, evenly; above it each asks
// again as soon as its answer is there, or after the wait it was told. The time
// per operation means nothing here.
func BenchmarkContention(b *testing.B) {
	const rate = 200
	for _, n := range []int{1, 4, 16} {
		for _, load := range []string{"low", "saturating"} {
			b.Run(fmt.Sprintf("%s-%d", load, n), func(b *testing.B) {
				var c crowd
				for b.Loop() { // once, unless -benchtime is longer
					c = newCrowd(b, n, rate)
					if load == "low" {
						c.pause = time.Duration(n) * time.Second * 2 / rate
					}
					c.run(b)
				}
				granted := float64(c.granted.Load())
				most := rate + rate*c.took.Seconds() // capacity and refill
				b.ReportMetric(float64(c.calls())/granted, "calls/granted")
				b.ReportMetric(0, "ns/op")
				say(b, "contention  %s load, %2d limiters, one bucket of %d/s: %.2f writes per granted acquire, %.0f granted in "+
					"%.1fs (%.1f/s), %.1f %% of capacity and refill, denied without a call %d, with %d; unavailable %d",
					load, n, rate, float64(c.calls())/granted, granted, c.took.Seconds(), granted/c.took.Seconds(), 100*granted/most,
					c.free.Load(), c.paid.Load(), c.gone.Load())
				if granted > most+1 {
					b.Errorf("%.0f granted, at most %.0f are there", granted, most)
				}
			})
		}
	}
}

// crowd is limiters on one bucket.
type crowd struct {
	limiters []*limiter.Limiter
	wires    []*wire
	req      limiter.Request
	pause    time.Duration // between the requests of one limiter; 0: none

	took                      time.Duration
	granted, free, paid, gone *atomic.Int64
}

func newCrowd(b *testing.B, n int, rate int64) crowd {
	t := newBare(b)
	c := crowd{
		granted: new(atomic.Int64), free: new(atomic.Int64), paid: new(atomic.Int64), gone: new(atomic.Int64),
		req: limiter.Request{Entity: "acme", Resource: resource, Costs: limiter.Costs{"rps": 1},
			Limits: []limiter.Limit{limiter.PerSecond("rps", rate)}},
	}
	for range n {
		w := &wire{DynamoDB: t.db}
		l, err := limiter.Open(b.Context(), w, t.table,
			&limiter.Options{Register: true, MaxShards: 1, Timeout: 10 * time.Second,
				Observer: &limiter.Observer{Denied: func(i limiter.AcquireInfo) {
					if i.Calls == 0 {
						c.free.Add(1)
					} else {
						c.paid.Add(1)
					}
				}}})
		if err != nil {
			b.Fatal(err)
		}
		c.limiters, c.wires = append(c.limiters, l), append(c.wires, w)
	}
	if _, err := c.limiters[0].Acquire(b.Context(), c.req); err != nil { // creates the bucket
		b.Fatal(err)
	}
	return c
}

// calls returns how many calls the limiters have made since the crowd ran.
func (c crowd) calls() (n int64) {
	for _, w := range c.wires {
		n += w.calls.Load()
	}
	return n
}

func (c *crowd) run(b *testing.B) {
	for _, w := range c.wires {
		w.calls.Store(0)
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(b.Context(), contentionFor)
	defer cancel()
	var all sync.WaitGroup
	for i, l := range c.limiters {
		all.Go(func() {
			next := begin.Add(c.pause * time.Duration(i) / time.Duration(len(c.limiters)))
			for ctx.Err() == nil {
				if c.pause > 0 {
					time.Sleep(time.Until(next))
					next = next.Add(c.pause)
				}
				_, err := l.Acquire(b.Context(), c.req)
				if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
					time.Sleep(denied.RetryAfter)
				} else if errors.Is(err, limiter.ErrUnavailable) {
					c.gone.Add(1) // lost to the others again and again
				} else if err != nil {
					b.Error(err)
					return
				} else {
					c.granted.Add(1)
				}
			}
		})
	}
	all.Wait()
	c.took = time.Since(begin)
}
