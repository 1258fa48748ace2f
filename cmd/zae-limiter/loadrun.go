package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// fleet is what makes the requests of a load test.
type fleet struct {
	plan     loadPlan
	limiters []*limiter.Limiter
	writes   atomic.Int64 // of acquires, as the limiters tell
}

// sample is one request and what became of it.
type sample struct {
	entity     int
	start, end time.Duration // since the beginning
	late       time.Duration // behind its arrival
	calls      bool          // something was sent
	err        error
	limits     []limiter.Status // of the first grant of an entity
}

// fleet opens one limiter for each process, each with connections of its own.
func (a *app) fleet(ctx context.Context, p loadPlan) (*fleet, error) {
	f := &fleet{plan: p}
	for range p.Processes {
		cfg, err := a.awsConfig(ctx)
		if err != nil {
			return nil, err
		}
		cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = 64
		})
		l, err := limiter.Open(ctx, a.dynamoDB(cfg), p.Table, &limiter.Options{
			Namespace: p.Namespace, Timeout: p.Timeout, OnUnavailable: limiter.PolicyBlock, Observe: f.observe,
		})
		if err != nil {
			return nil, err
		}
		f.limiters = append(f.limiters, l)
	}
	return f, nil
}

// sentKey finds in a context where to note that something was sent.
type sentKey struct{}

func (f *fleet) observe(ctx context.Context, e limiter.Event) {
	if e.Kind != limiter.EventAcquire {
		return
	}
	f.writes.Add(int64(e.Writes))
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok && e.Writes > 0 {
		sent.Store(true)
	}
}

// outcome is what a run has seen.
type outcome struct {
	samples []sample
	writes  int64
	took    time.Duration
}

// run makes the requests. When ctx is done no further ones are made.
func (f *fleet) run(ctx context.Context, told *progress) outcome {
	random := rand.New(rand.NewPCG(f.plan.Seed, 0))
	at := arrivals(f.plan.Arrivals, f.plan.Rate, f.plan.Duration, random)
	entities := newChooser(f.plan.Entities, f.plan.Skew)
	samples := make([]sample, len(at))
	var admitted, denied, failures atomic.Int64
	told.say(func() string {
		return fmt.Sprintf("%d of %d asked: %d admitted, %d denied, %d failed",
			admitted.Load()+denied.Load()+failures.Load(),
			len(at), admitted.Load(), denied.Load(), failures.Load())
	})
	seen := make([]sync.Once, f.plan.Entities)
	begin := time.Now()
	var all sync.WaitGroup
	made := 0
	for i, due := range at {
		s := &samples[i]
		s.entity = entities.pick(random)
		l := f.limiters[random.IntN(len(f.limiters))]
		if !sleepUntil(ctx, begin.Add(due)) {
			break
		}
		made++
		all.Go(func() {
			s.late = time.Since(begin) - due
			f.ask(ctx, l, s, begin, &seen[s.entity])
			switch {
			case s.err == nil:
				admitted.Add(1)
			case errors.Is(s.err, limiter.ErrLimited):
				denied.Add(1)
			default:
				failures.Add(1)
			}
		})
	}
	all.Wait()
	return outcome{samples[:made], f.writes.Load(), time.Since(begin)}
}

func sleepUntil(ctx context.Context, at time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	wait := time.Until(at)
	if wait <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// ask makes one request.
func (f *fleet) ask(ctx context.Context, l *limiter.Limiter, s *sample, begin time.Time, first *sync.Once) {
	var sent atomic.Bool
	ctx = context.WithValue(context.WithoutCancel(ctx), sentKey{}, &sent) // what was begun is finished
	s.start = time.Since(begin)
	lease, err := l.Acquire(ctx, limiter.Request{
		Entity: fmt.Sprintf("%s%d", f.plan.Prefix, s.entity+1), Resource: f.plan.Resource, Costs: f.plan.Costs,
		Limits: f.plan.Limits,
	})
	s.end, s.calls, s.err = time.Since(begin), sent.Load(), err
	if err != nil {
		return
	}
	first.Do(func() { s.limits = lease.Status() })
	_ = lease.Commit(ctx) // nothing was settled, so nothing is sent
}
