package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Result is what a run of a case has shown.
type Result struct {
	Attempts, Granted, Denied, Failed int

	Unknown  int     // of those that failed: tokens may have been taken
	Slow     int     // decided, but after more than 50 ms
	Exact    int     // what the exact bucket granted of the same arrivals
	Tokens   int64   // of the first limit, granted
	Due      int64   // and what the exact bucket granted
	Writes   int     // write units
	Reads    float64 // read units
	Low      float64 // mean, as a share of the capacity
	LowWorst float64
	Excess   float64       // tokens
	Lost     int           // writes without an answer
	Denial   time.Duration // how long 99 of 100 denials took at most
	Longest  time.Duration // and the longest
	Shards   int           // at the end
}

// PerGrant returns the write units per granted acquire.
func (r Result) PerGrant() float64 { return float64(r.Writes) / float64(max(r.Granted, 1)) }

// PerAttempt returns the write units per acquire.
func (r Result) PerAttempt() float64 { return float64(r.Writes) / float64(max(r.Attempts, 1)) }

// Delivered returns the grants as a share of those of the exact bucket.
func (r Result) Delivered() float64 { return float64(r.Granted) / float64(max(r.Exact, 1)) }

// Trips returns how many of the longest round trips 99 of 100 denials took at most.
func (r Result) Trips(c Case) float64 {
	trip := c.network().trip
	if c.Spike > 0 {
		trip *= spikeTimes
	}
	return float64(r.Denial) / float64(trip)
}

// String is the line that the table of the package comment explains.
func (r Result) String() string {
	return fmt.Sprintf("writes/grant %5.2f  writes/try %5.2f  delivered %6.2f %%  low mean %5.1f %% worst %5.1f %%  "+
		"excess %+.3f",
		r.PerGrant(), r.PerAttempt(), 100*r.Delivered(), 100*r.Low, 100*r.LowWorst, r.Excess)
}

// outcome counts what became of acquires. It is safe for concurrent use.
type outcome struct {
	mu sync.Mutex
	Result
	denials []time.Duration // how long each took
}

func (o *outcome) add(took time.Duration, err error) {
	const slow = 50 * time.Millisecond // a dozen calls
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Attempts++
	switch {
	case err == nil:
		o.Granted++
	case errors.Is(err, limiter.ErrLimited):
		o.Denied++
		o.denials = append(o.denials, took)
	default:
		o.Failed++
		if errors.Is(err, limiter.ErrUnknown) {
			o.Unknown++
		}
		return
	}
	if took > slow {
		o.Slow++
	}
}

// time calls f and adds what becomes of it.
func (o *outcome) time(f func() error) error {
	begin := time.Now()
	err := f()
	o.add(time.Since(begin), err)
	return err
}

// paid adds the tokens of an acquire that was granted.
func (o *outcome) paid(tokens int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.Tokens += tokens
	}
}

// process takes tokens, in the order of the case's limits, or says why not.
type process func(ctx context.Context, tokens []int64) error

// tally is the side of a table that is counted.
type tally interface {
	sample()
	reset()
	result(*Result)
}

// arrive sends the traffic of the case to the processes and returns what became
// of what arrived after the time to get warm. It blocks until the last acquire
// has returned.
func (c Case) arrive(ctx context.Context, processes []process, t tally) Result {
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	var warm, counted outcome
	var wg sync.WaitGroup
	begin := time.Now()
	exact := newIdeal(c.Bucket.rates(), begin.UnixMilli())
	into := &warm
	for at := begin; ; {
		at = at.Add(time.Duration(rng.ExpFloat64() / c.perSecond() * float64(time.Second)))
		if into == &warm && at.Sub(begin) > c.Warm {
			time.Sleep(time.Until(begin.Add(c.Warm)))
			t.reset()
			into = &counted
		}
		if at.Sub(begin) > c.Warm+c.For {
			break
		}
		time.Sleep(time.Until(at))
		tokens, p, into := c.Bucket.Cost(rng), processes[rng.IntN(len(processes))], into
		granted := exact.acquire(tokens, at.UnixMilli())
		if into == &counted {
			t.sample()
			if granted {
				counted.Exact++
				counted.Due += tokens[0]
			}
		}
		wg.Go(func() { into.paid(tokens[0], into.time(func() error { return p(ctx, tokens) })) })
	}
	wg.Wait()
	t.result(&counted.Result)
	if d := counted.denials; len(d) > 0 {
		slices.Sort(d)
		counted.Denial, counted.Longest = d[len(d)*99/100], d[len(d)-1]
	}
	return counted.Result
}

// Run plays the case with limiters. It has to be called inside a bubble of
// testing/synctest.
func (c Case) Run(ctx context.Context) (Result, error) {
	t := newTable(c)
	processes := make([]process, c.Processes)
	for i := range processes {
		l, err := t.process(ctx, c.Options)
		if err != nil {
			return Result{}, err
		}
		processes[i] = func(ctx context.Context, tokens []int64) error {
			if c.Deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.Deadline)
				defer cancel()
			}
			_, err := l.Acquire(ctx, c.Bucket.request(tokens))
			return err
		}
	}
	t.network.loseOne = c.LoseOne
	return c.arrive(ctx, processes, t), nil
}

func (t *tableStore) reset() {
	t.db.ResetStats()
	t.network.mu.Lock()
	defer t.network.mu.Unlock()
	t.network.lost = 0
}

func (t *tableStore) result(r *Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.db.Stats()
	r.Writes, r.Reads = st.WriteUnits, st.ReadUnits
	r.Low, r.LowWorst = t.ledger.low.mean(), t.ledger.low.worst
	r.Excess, r.Shards = t.ledger.excess(), len(t.shards)
	r.Lost = t.network.lost
}
