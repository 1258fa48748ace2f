package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// fleet makes the requests of a load test.
type fleet struct {
	plan     loadPlan
	limiters []*limiter.Limiter
	now      func() time.Time // the limiters' clock
	writes   atomic.Int64     // as reported by the limiters
	clocks   *clocks
}

// sample is one request and its result.
type sample struct {
	entity     int
	start, end time.Duration // since the beginning
	late       time.Duration // behind its arrival
	calls      bool          // something was sent
	err        error

	sent, answered int64     // epoch ms by the limiters' clock
	limits         []inForce // the limits that a grant charged
}

// fleet opens one limiter for each process, each with its own connections.
func (a *app) fleet(ctx context.Context, p loadPlan) (*fleet, error) {
	f := &fleet{plan: p, now: time.Now, clocks: newClocks(p.Processes)}
	if a.memory != nil {
		f.now, f.clocks.here = a.memory.Now, true
	}
	for i := range p.Processes {
		db, err := a.loader(ctx, f.clocks)
		if err != nil {
			return nil, err
		}
		l, err := limiter.Open(ctx, db, p.Table, a.loadOptions(f, i))
		if err != nil {
			return nil, err
		}
		f.limiters = append(f.limiters, l)
	}
	f.clocks.begin()
	return f, nil
}

// loadOptions returns the options of limiter i. The limiter corrects its clock by DynamoDB's
// answers.
func (a *app) loadOptions(f *fleet, i int) *limiter.Options {
	o := &limiter.Options{
		Namespace: f.plan.Namespace, Timeout: f.plan.Timeout,
		Observe: func(ctx context.Context, e limiter.Event) { f.observe(ctx, i, e) },
	}
	if a.memory != nil {
		o.Now = a.memory.Now
	}
	return o
}

// loader returns a client with its own connections, whose answers set the clocks.
func (a *app) loader(ctx context.Context, c *clocks) (limiter.DynamoDB, error) {
	if a.memory != nil {
		return a.memory, nil
	}
	cfg, err := a.awsConfig(ctx)
	if err != nil {
		return nil, err
	}
	cfg.HTTPClient = listen{clocks: c, HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(
		func(t *http.Transport) { t.MaxIdleConnsPerHost = 64 })}
	db := a.dynamoDB(cfg)
	c.here = loopback(db.Options().BaseEndpoint)
	return db, nil
}

// sentKey is the context key of the flag for a request that wrote to the table.
type sentKey struct{}

// observe counts the writes of limiter i, and follows its clock.
func (f *fleet) observe(ctx context.Context, i int, e limiter.Event) {
	if e.Kind == limiter.EventClock {
		f.clocks.corrected(i, e.Clock.After)
	}
	f.writes.Add(int64(e.Writes))
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok && e.Writes > 0 {
		sent.Store(true)
	}
}

// outcome is the result of a run.
type outcome struct {
	samples []sample
	writes  int64
	took    time.Duration

	apart       time.Duration // bound on the difference of the clocks that refill
	clocksKnown bool          // apart is known
}

// mostRefused is after how many requests a run ends if all were refused, and others would be too.
const mostRefused = 20

// lasts reports whether the reason for a refusal lasts, like a limit that is missing.
func lasts(err error) bool {
	return err != nil && !slices.ContainsFunc([]error{limiter.ErrLimited, limiter.ErrUnavailable, limiter.ErrUnknown},
		func(passes error) bool { return errors.Is(err, passes) })
}

// run makes the requests, and starts no more when ctx is done, or if the first are all refused.
func (f *fleet) run(ctx context.Context, shown *progress) outcome {
	random := rand.New(rand.NewPCG(f.plan.Seed, 0))
	at := arrivals(f.plan.Arrivals, f.plan.Rate, f.plan.Duration, random)
	entities := loadcheck.Zipf(f.plan.Entities, f.plan.Skew)
	samples := make([]sample, len(at))
	var mu sync.Mutex
	var answered loadSecond
	refused := 0
	shown.say(func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("%d of %d asked: %d admitted, %d denied, %d failed", answered.Offered, len(at),
			answered.Admitted, answered.Denied, answered.Failed)
	})
	hopeless := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return refused >= mostRefused && refused == answered.Offered
	}
	begin := time.Now()
	var all sync.WaitGroup
	made := 0
	for i, due := range at {
		s := &samples[i]
		s.entity = entities.Draw(random)
		l := f.limiters[random.IntN(len(f.limiters))]
		if ctx.Err() != nil || smithytime.SleepWithContext(ctx, time.Until(begin.Add(due))) != nil || hopeless() {
			break
		}
		made++
		all.Go(func() {
			s.late = time.Since(begin) - due
			f.ask(ctx, l, s, begin)
			mu.Lock()
			defer mu.Unlock()
			if answered.count(s.err); lasts(s.err) {
				refused++
			}
		})
	}
	all.Wait()
	apart, ok := f.clocks.apart()
	return outcome{samples[:made], f.writes.Load(), time.Since(begin), apart, ok}
}

// ask makes one request.
func (f *fleet) ask(ctx context.Context, l *limiter.Limiter, s *sample, begin time.Time) {
	var sent atomic.Bool
	ctx = context.WithValue(context.WithoutCancel(ctx), sentKey{}, &sent) // a started request is finished
	s.start = time.Since(begin)
	before := f.now().UnixMilli()
	lease, err := l.Acquire(ctx, limiter.Request{
		Entity: fmt.Sprintf("%s%d", f.plan.Prefix, s.entity+1), Resource: f.plan.Resource, Costs: f.plan.Costs,
		Limits: f.plan.Limits, OnUnavailable: limiter.PolicyBlock, // overrides a stored policy
	})
	after := f.now().UnixMilli()
	s.sent, s.answered = min(before, after), max(before, after) // the clock may be set back between
	s.end, s.calls, s.err = time.Since(begin), sent.Load(), err
	if err != nil {
		return
	}
	s.limits = chargedTo(lease.Status(), f.plan.Costs)
	_ = lease.Commit(ctx) // nothing to settle: this only gives slots back
}
