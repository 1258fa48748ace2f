//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// load is the result of clients on one bucket.
type load struct {
	clients.Book
	account loadcheck.Account
	rule    limiter.Limit // no window may exceed it
	from    time.Time

	mu     sync.Mutex
	theirs int            // grants of Python
	denied int            // denials of Python
	failed map[string]int // its other errors
}

func newLoad(entity string, rule limiter.Limit) *load {
	return &load{account: loadcheck.Account{Entity: entity, Resource: "api", Limit: rule.Name}, rule: rule,
		from: time.Now(), failed: map[string]int{}}
}

// python loads a bucket with tasks of one Python process for a time.
func (o *load) python(p *python, workers int, d time.Duration) error {
	var got struct {
		Grants [][2]int64 // microseconds
		Denied int
		Errors map[string]string
	}
	err := p.driver.ask(&got, "load", kv{
		"client": p.id, "entity": o.account.Entity, "resource": "api", "consume": limiter.Costs{"rpm": 1},
		"workers": workers, "seconds": d.Seconds(), "pause": 0,
	})
	for _, g := range got.Grants {
		o.Granted(o.account, loadcheck.Rule{From: g[0] / 1000, To: g[1] / 1000, Capacity: o.rule.Capacity,
			Amount: o.rule.Refill, Period: o.rule.Period.Milliseconds()}, 1)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.theirs += len(got.Grants)
	o.denied += got.Denied
	for name, text := range got.Errors {
		o.failed["Python "+name+": "+text]++
	}
	return err
}

// ours loads a bucket with goroutines of one of our clients.
func (o *load) ours(ctx context.Context, l *limiter.Limiter, workers int, d time.Duration) {
	until := time.Now().Add(d)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for time.Now().Before(until) {
				err := o.Make(ctx, l, clients.Call{Rules: []limiter.Limit{o.rule},
					Request: limiter.Request{Entity: o.account.Entity, Resource: "api", Costs: limiter.Costs{"rpm": 1}}})
				if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
					time.Sleep(min(max(denied.RetryAfter, 5*time.Millisecond), 200*time.Millisecond))
				} else if err != nil {
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
}

// became returns the grants, the excess of the worst window in millitokens, and a summary.
func (o *load) became(t *testing.T) (granted, excess int64, said string) {
	t.Helper()
	all, err := o.Judge(0, false)
	check.Must(t, err, "%v", o.account)
	check.MustEqual(t, len(all), 1, "%v: %v", o.account, all)
	p := o.Page(o.account)
	granted, excess = p.Granted(), all[0].Excess
	earned := float64(o.rule.Capacity) + float64(o.rule.Refill)*time.Since(o.from).Seconds()/o.rule.Period.Seconds()
	said = fmt.Sprintf("delivered %.1f %%, worst excess %s tokens, %d granted (Python %d), Go %+v %v, Python denied %d, "+
		"failed %v", 100*float64(granted)/earned, bucket.Tokens(excess), granted, o.theirs, o.Ends(), o.Errs(), o.denied,
		o.failed)
	return granted, excess, said
}

// Thirty seconds at several times the rate, on three buckets at once: one used by Python, one by
// Go, and one by both. All grants are counted, and with our client on a bucket no window exceeds
// the limit.
func TestConcurrentLoad(t *testing.T) {
	const seconds = 30 * time.Second
	limit := limiter.PerSecond("rpm", 20).WithCapacity(50)
	onBothEngines(t, func(w *world) {
		processes := []*python{w.python(), w.anotherPython(1)}
		processes[0].call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(limit)})
		loads := map[string]*load{}
		var wg sync.WaitGroup
		for _, name := range []string{"Python", "Go", "mixed"} {
			o := newLoad(name, limit)
			loads[name] = o
			for i, client := range []*limiter.Limiter{w.open(), w.open()} {
				if name != "Go" {
					wg.Go(func() {
						check.NoError(w, o.python(processes[i], 3, seconds))
					})
				}
				if name != "Python" {
					wg.Go(func() { o.ours(w.Context(), client, 3, seconds) })
				}
			}
		}
		wg.Wait()
		for name, o := range loads {
			got, excess, said := o.became(w.T)
			w.Logf("interop: load, %s: %s", name, said)
			if name != "Python" && excess > 100 {
				w.Errorf("%s: %d thousandths of a token more than allowed in some window", name, excess)
			}
			failed := len(o.failed) + len(o.Errs()) + o.Ends().Unavailable + o.Ends().Unknown
			if used := w.counted(name); failed == 0 && used != got*1000 {
				w.Errorf("%s: %d millitokens are counted for %d grants of one token", name, used, got)
			}
		}
	})
}

// counted returns the counters of all shards of a bucket, in millitokens.
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
