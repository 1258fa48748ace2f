package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Result is the result of a run of a case.
type Result struct {
	Attempts, Granted, Denied, Failed int

	Unknown  int     // part of Failed: tokens may have been taken
	Slow     int     // decided, but only after more than 50 ms
	Exact    int     // the exact bucket's grants of the same arrivals
	Tokens   int64   // of the first limit, granted
	Due      int64   // Tokens, for the exact bucket
	Writes   int     // write units
	Reads    float64 // read units
	Low      float64 // mean, as a share of the capacity
	LowWorst float64
	Excess   float64       // tokens
	Lost     int           // writes without an answer
	Denial   time.Duration // how long 99 of 100 denials took at most
	Shards   int           // at the end
	Waited   float64       // part of the grants that took any time
	Jain     float64       // how evenly processes were served
	Unfair   float64       // the lowest Jain's index of a window of 10 s in which each got 50 grants on average
	Got      []float64     // by process: the served part of its demand
	After    delivered     // from two lives after a crash
}

// delivered compares the grants with an exact bucket's.
type delivered struct{ granted, exact int }

// PerGrant returns the write units per granted acquire.
func (r Result) PerGrant() float64 { return float64(r.Writes) / float64(max(r.Granted, 1)) }

// PerAttempt returns the write units per acquire.
func (r Result) PerAttempt() float64 { return float64(r.Writes) / float64(max(r.Attempts, 1)) }

// Delivered returns the grants as a share of the exact bucket's.
func (r Result) Delivered() float64 { return float64(r.Granted) / float64(max(r.Exact, 1)) }

// Trips returns the time of all but the slowest 1 % of denials, in the longest round trips.
func (r Result) Trips(c Case) float64 {
	trip := c.network().trip
	if c.Spike > 0 {
		trip *= spikeTimes
	}
	return float64(r.Denial) / float64(trip)
}

// String returns a line of the table in the package comment.
func (r Result) String() string {
	return fmt.Sprintf("writes/grant %5.2f  writes/try %5.2f  delivered %6.2f %%  low mean %5.1f %% worst %5.1f %%  "+
		"excess %+.3f",
		r.PerGrant(), r.PerAttempt(), 100*r.Delivered(), 100*r.Low, 100*r.LowWorst, r.Excess)
}

// outcome counts the outcomes of acquires. It is safe for concurrent use.
type outcome struct {
	mu sync.Mutex
	Result
	denials []time.Duration // how long each took
	grants  []granted
	waited  int       // grants that took longer than zero
	wanted  []float64 // by process
	got     []float64
}

// granted is an acquire that was granted: some time between its call and its return.
type granted struct {
	process        int
	sent, answered int64
	tokens         []int64
}

// eventsOf returns the grants as events by limit, in millitokens.
func eventsOf(b Bucket, grants []granted) [][]loadcheck.Event {
	out := make([][]loadcheck.Event, len(b.Limits))
	for _, g := range grants {
		for i, n := range g.tokens {
			out[i] = append(out[i], loadcheck.Event{Kind: loadcheck.Grant, Sent: g.sent, Answered: g.answered,
				Tokens: n * bucket.Milli})
		}
	}
	return out
}

func newOutcome(processes int) *outcome {
	return &outcome{wanted: make([]float64, processes), got: make([]float64, processes)}
}

// record counts a process's request, its outcome, and whether it was sent two lives after a crash.
func (o *outcome) record(process int, begin time.Time, tokens []int64, after bool, err error) {
	const slow = 50 * time.Millisecond // about a dozen calls
	took := time.Since(begin)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Attempts++
	o.wanted[process]++
	switch {
	case err == nil:
		o.Granted++
		o.Tokens += tokens[0]
		o.got[process]++
		if after {
			o.After.granted++
		}
		if took > 0 {
			o.waited++
		}
		o.grants = append(o.grants, granted{process, begin.UnixMilli(), time.Now().UnixMilli(), tokens})
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

// process takes tokens, in the order of the case's limits, or returns why not.
type process func(ctx context.Context, tokens []int64) error

// tally is the counted side of a table.
type tally interface {
	sample()
	reset()
	result(*Result)
}

// arrive sends the traffic of the case to the processes and returns the result of the arrivals
// after the warm-up. It blocks until the last acquire has returned.
func (c Case) arrive(ctx context.Context, processes []process, t tally) Result {
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	warm, counted := newOutcome(len(processes)), newOutcome(len(processes))
	begin, requests := time.Now(), workers{next: make(chan func())}
	exact, pick, into := newIdeal(c.Bucket.rates(), begin.UnixMilli()), c.picker(rng, len(processes)), warm
	gap := rng.ExpFloat64 // until the next arrival, in means
	if c.Smooth {
		gap = func() float64 { return 1 }
	}
	for at := begin; ; {
		at = at.Add(time.Duration(gap() / c.perSecond() * float64(time.Second)))
		if into == warm && at.Sub(begin) > c.Warm {
			time.Sleep(time.Until(begin.Add(c.Warm)))
			t.reset()
			into = counted
		}
		if at.Sub(begin) > c.Warm+c.For {
			break
		}
		time.Sleep(time.Until(at))
		tokens, who := c.Bucket.Cost(rng), pick(at)
		if who < 0 {
			continue
		}
		p, into := processes[who], into
		granted := exact.acquire(tokens, at.UnixMilli())
		if into == counted {
			t.sample()
			if granted {
				counted.Exact++
				counted.Due += tokens[0]
			}
		}
		after := c.Crash > 0 && at.Sub(begin) > c.Warm+c.Crash+2*c.Options.Ahead
		if after && granted {
			counted.After.exact++
		}
		requests.Go(func() {
			begin := time.Now()
			into.record(who, begin, tokens, after, p(ctx, tokens))
		})
	}
	requests.under.Wait()
	close(requests.next)
	t.result(&counted.Result)
	time.Sleep(10 * time.Second) // for work that no caller waits for
	if c.Options.Ahead > 0 {     // the counters of the table are ahead of the grants
		counted.Excess = excess(c.Bucket.rates(), false, eventsOf(c.Bucket, append(warm.grants, counted.grants...)))
	}
	counted.Waited = float64(counted.waited) / float64(max(counted.Granted, 1))
	counted.Jain, counted.Unfair = jain(counted.wanted, counted.got), unfair(counted.grants, len(processes))
	for i, n := range counted.got {
		counted.Got = append(counted.Got, n/max(counted.wanted[i], 1))
	}
	if d := counted.denials; len(d) > 0 {
		slices.Sort(d)
		counted.Denial = d[len(d)*99/100]
	}
	return counted.Result
}

// workers run functions on goroutines that they use again: to grow the stack of a new one for every
// request takes a fifth of the time.
type workers struct {
	under sync.WaitGroup
	next  chan func()
}

// Go runs a function without waiting for it.
func (w *workers) Go(f func()) {
	w.under.Add(1)
	select {
	case w.next <- f: // one has nothing to do
	default:
		go func() {
			for ok := true; ok; f, ok = <-w.next {
				f()
				w.under.Done()
			}
		}()
	}
}

// Run runs the case. It must be called inside a bubble of testing/synctest.
func (c Case) Run(ctx context.Context) (r Result, err error) {
	t := newTable(c)
	namespace := ""
	if c.Shards > 0 {
		c.Options.MaxShards = c.Shards
	}
	if c.Shards > 0 || c.Python > 0 {
		if namespace, err = t.begin(ctx, c); err != nil {
			return r, err
		}
	}
	var processes []process
	for i := range c.Python {
		p := &pythonWriter{t: t, rng: rand.New(rand.NewPCG(c.Seed, 100+uint64(i))), namespace: namespace,
			metered: c.Shards > 0}
		processes = append(processes, p.acquire)
	}
	for i := range c.Processes {
		p, err := c.process(ctx, t, i)
		if err != nil {
			return r, err
		}
		processes = append(processes, p)
	}
	t.network.loseOne = c.LoseOne
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	if c.Python > 0 && c.Shards > 0 {
		go func() { ended <- t.aggregate(ctx, c.Shards) }()
	} else {
		ended <- nil
	}
	r = c.arrive(ctx, processes, t)
	stop()
	return r, <-ended
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
	r.Low, r.LowWorst = t.witness.low.mean(), t.witness.low.worst
	r.Excess, r.Shards = t.witness.excess(), len(t.shards)
	r.Lost = t.network.lost
}
