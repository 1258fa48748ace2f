package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// copies is the approach of limiters that decide without a call and synchronize later: each process
// has a copy of the bucket, grants from it, and sends its grants to an owner every so often. The
// answer is the next copy. So do gubernator's GLOBAL behavior, whose owner drains a bucket to zero
// when more was granted (docs/architecture.md and gubernator.go there), and caches in front of a
// shared bucket. It is a model of the approach, not of a program.
type copies struct {
	network *network
	rates   []bucket.Rate
	debt    bool // the owner goes below zero for excess grants; else it stops there
	own     balance
	syncs   int

	mu      sync.Mutex
	witness *witness
}

// balance is the level of a bucket at an instant, in millitokens.
type balance struct {
	tokens []int64
	at     int64
}

func (l *balance) refill(rates []bucket.Rate, now int64) {
	for i, r := range rates {
		l.tokens[i] = min(r.Capacity, l.tokens[i]+(now-l.at)*r.Amount/r.Period)
	}
	l.at = now
}

func (t *copies) full() (l balance) {
	l.at = nowMilli()
	for _, r := range t.rates {
		l.tokens = append(l.tokens, r.Capacity)
	}
	return l
}

var errCopyDenied = errors.Join(limiter.ErrLimited, errors.New("denied by a copy"))

// copyOf is the copy of one process. The lock of copies guards it.
type copyOf struct {
	t     *copies
	level balance
	owed  []int64 // granted, and not sent yet
}

func (p *copyOf) acquire(_ context.Context, tokens []int64) error {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	now := nowMilli()
	p.level.refill(p.t.rates, now)
	if !covers(p.level.tokens, tokens) {
		return errCopyDenied
	}
	for i, n := range tokens {
		p.level.tokens[i] -= n * bucket.Milli
		p.owed[i] += n * bucket.Milli
		p.t.witness.took(i, n*bucket.Milli, now, now)
	}
	return nil
}

// sync sends the grants to the owner, and takes over its level.
func (p *copyOf) sync() {
	t := p.t
	t.mu.Lock()
	told := append([]int64(nil), p.owed...)
	t.mu.Unlock()
	time.Sleep(t.network.way())
	t.mu.Lock()
	t.syncs++
	t.own.refill(t.rates, nowMilli())
	for i, n := range told {
		if t.own.tokens[i] -= n; !t.debt {
			t.own.tokens[i] = max(0, t.own.tokens[i])
		}
	}
	next := balance{append([]int64(nil), t.own.tokens...), t.own.at}
	t.mu.Unlock()
	time.Sleep(t.network.way())
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range told {
		p.owed[i] -= n
		next.tokens[i] -= p.owed[i]
	}
	p.level = next
}

func (t *copies) sample() {}

func (t *copies) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.syncs = 0
}

func (t *copies) result(r *Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Writes, r.Excess, r.Shards = t.syncs, t.witness.excess(), 1
}

// Copies plays the case with a copy in each process. Writes are the calls to the owner. It has
// to be called inside a bubble of testing/synctest.
func (c Case) Copies(ctx context.Context, every time.Duration, debt bool) Result {
	t := &copies{network: c.network(), rates: c.Bucket.rates(), debt: debt,
		witness: newWitness(c.Bucket.rates(), nowMilli())}
	t.own = t.full()
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var processes []process
	rng := rand.New(rand.NewPCG(c.Seed, 3))
	for range c.Processes {
		p := &copyOf{t: t, level: t.full(), owed: make([]int64, len(t.rates))}
		processes = append(processes, p.acquire)
		first := time.Duration(rng.Int64N(int64(every)))
		all.Go(func() {
			for wait := first; ; wait = every {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
					p.sync()
				}
			}
		})
	}
	r := c.arrive(ctx, processes, t)
	stop()
	all.Wait()
	return r
}
