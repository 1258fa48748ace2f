//go:build interop

package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// call is one granted acquire: its tokens were taken between begin and end,
// microseconds of the wall clock.
type call struct{ begin, end int64 }

// load is what clients got out of one bucket.
type load struct {
	mu     sync.Mutex
	calls  []call
	theirs int // of calls, by Python
	denied int
	failed map[string]int // other errors
	from   time.Time
	took   time.Duration
}

func newLoad() *load { return &load{failed: map[string]int{}, from: time.Now()} }

// worst is the largest excess over all windows, in tokens: what was granted by
// calls that lie in the window as a whole, less capacity and refill. Above zero
// it is proof of over-admission, however the calls were timed.
func (o *load) worst(limit limiter.Limit) float64 {
	calls := slices.Clone(o.calls)
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.end, b.end) })
	perMicro := float64(limit.Refill) / float64(limit.Period.Microseconds())
	worst := -float64(limit.Capacity)
	for _, first := range calls {
		granted := 0
		for _, c := range calls {
			if c.begin < first.begin {
				continue
			}
			granted++
			worst = max(worst, float64(granted)-float64(limit.Capacity)-perMicro*float64(c.end-first.begin))
		}
	}
	return worst
}

// delivered is the share of capacity and refill that was granted.
func (o *load) delivered(limit limiter.Limit) float64 {
	return float64(len(o.calls)) / (float64(limit.Capacity) +
		float64(limit.Refill)*o.took.Seconds()/limit.Period.Seconds())
}

// python loads a bucket with tasks of one Python process until a time is over.
func (o *load) python(p *python, entity string, workers int, d time.Duration) error {
	var got struct {
		Grants [][2]int64
		Denied int
		Errors map[string]string
	}
	err := p.driver.ask(&got, "load", kv{
		"client": p.id, "entity": entity, "resource": "api", "consume": limiter.Costs{"rpm": 1},
		"workers": workers, "seconds": d.Seconds(), "pause": 0,
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range got.Grants {
		o.calls = append(o.calls, call{g[0], g[1]})
	}
	o.theirs += len(got.Grants)
	o.denied += got.Denied
	for name, text := range got.Errors {
		o.failed["Python "+name+": "+text]++
	}
	return err
}

// ours loads a bucket with goroutines of one client of ours.
func (o *load) ours(ctx context.Context, l *limiter.Limiter, entity string, workers int, d time.Duration) {
	until := time.Now().Add(d)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for time.Now().Before(until) {
				begin := time.Now().UnixMicro()
				_, err := l.Acquire(ctx, limiter.Request{Entity: entity, Resource: "api", Costs: limiter.Costs{"rpm": 1}})
				end := time.Now().UnixMicro()
				pause := time.Duration(0)
				o.mu.Lock()
				if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
					o.denied++
					pause = min(max(denied.RetryAfter, 5*time.Millisecond), 200*time.Millisecond)
				} else if err != nil {
					o.failed["Go: "+err.Error()]++
					pause = 20 * time.Millisecond
				} else {
					o.calls = append(o.calls, call{begin, end})
				}
				o.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
}

func (o *load) String() string {
	return fmt.Sprintf("%d granted (Python %d, Go %d), %d denied, failed %v", len(o.calls), o.theirs,
		len(o.calls)-o.theirs, o.denied, o.failed)
}

// Thirty seconds of several times the rate on three buckets at once: one that
// only Python uses, one that only Go uses, one that both use. What is granted is
// what was counted, and with a client of ours on the bucket no window gets more
// than the limit allows.
func TestConcurrentLoad(t *testing.T) {
	const seconds = 30 * time.Second
	limit := limiter.PerSecond("rpm", 20).WithCapacity(50)
	onBothEngines(t, func(w *world) {
		processes := []*python{w.python(), w.anotherPython(1)}
		processes[0].call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(limit)})
		loads := map[string]*load{"Python": newLoad(), "Go": newLoad(), "mixed": newLoad()}
		var wg sync.WaitGroup
		for name, o := range loads {
			clients := []*limiter.Limiter{w.open(), w.open()}
			for i := range 2 {
				if name != "Go" {
					wg.Go(func() {
						if err := o.python(processes[i], name, 3, seconds); err != nil {
							w.Error(err)
						}
					})
				}
				if name != "Python" {
					wg.Go(func() { o.ours(w.Context(), clients[i], name, 3, seconds) })
				}
			}
		}
		wg.Wait()
		for _, name := range []string{"Python", "Go", "mixed"} {
			o := loads[name]
			o.took = time.Since(o.from)
			excess := o.worst(limit)
			w.Logf("interop: load, %s: delivered %.1f %%, worst excess %+.2f tokens; %v", name, 100*o.delivered(limit), excess,
				o)
			if name != "Python" && excess > 0.1 {
				w.Errorf("%s: %.2f tokens more than allowed in some window", name, excess)
			}
			if used := w.counted(name); len(o.failed) == 0 && used != int64(len(o.calls))*1000 {
				w.Errorf("%s: %d millitokens are counted for %d grants of one token", name, used, len(o.calls))
			}
		}
	})
}

// counted is what all shards of a bucket have counted, in millitokens.
func (w *world) counted(entity string) (sum int64) {
	w.Helper()
	for k := range w.bucket(entity, "api").State.Shards {
		if b, ok := w.shard(entity, "api", k); ok {
			for _, sl := range b.State.Slots {
				if sl.Name == "rpm" {
					sum += sl.Used
				}
			}
		}
	}
	return sum
}
