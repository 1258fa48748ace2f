package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

const (
	// processes is how many clients there are, each with a connection pool and
	// caches of its own, as processes on different machines have.
	processes = 8
	// inFlight bounds the calls under way, over all clients. On a machine that
	// cannot keep up, requests that would begin more than maxLag late are left
	// out, so that the demo takes as long everywhere.
	inFlight = 24
	maxLag   = time.Second
)

// fleet is the clients. It is safe for concurrent use.
type fleet struct {
	limiters []*limiter.Limiter
	book     *book
	lost     atomic.Int64 // writes that another client was faster than
	leftOut  atomic.Int64 // requests not sent because the machine is too slow
	next     atomic.Int64
}

func clientOptions() limiter.Options {
	return limiter.Options{Namespace: namespace, Register: true, Timeout: 5 * time.Second, MaxShards: maxShards}
}

func openFleet(ctx context.Context, e *engine.Engine, table string, n int, l *book,
	change ...func(*limiter.Options)) (*fleet, error) {
	f := &fleet{book: l}
	observe := func(_ context.Context, e limiter.Event) {
		if e.Kind == limiter.EventRefused {
			f.lost.Add(1)
		}
	}
	for range n {
		opts := clientOptions()
		opts.Observe = observe
		for _, c := range change {
			c(&opts)
		}
		lim, err := limiter.Open(ctx, e.DynamoDB(), table, &opts)
		if err != nil {
			return nil, fmt.Errorf("open limiter: %w", err)
		}
		f.limiters = append(f.limiters, lim)
	}
	return f, nil
}

// play sends the requests at their times, from one client after the other, and
// returns when all have ended or ctx is done.
func (f *fleet) play(ctx context.Context, requests []request) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, inFlight)
	begin := time.Now()
	for _, r := range requests {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(begin.Add(r.at))):
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		if time.Since(begin) > r.at+maxLag {
			f.leftOut.Add(1)
			<-slots
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			f.one(ctx, r)
		})
	}
}

// one plays one request: acquire, call the model, settle. The result of Do shows how the request
// ended; the function in it sees the grant and the settlement.
func (f *fleet) one(ctx context.Context, r request) {
	lim := f.limiters[int(f.next.Add(1))%len(f.limiters)]
	costs := limiter.Costs{"rpm": max(r.calls, 1)}
	if r.estimate > 0 {
		costs["tpm"] = r.estimate
	}
	req := limiter.Request{Entity: r.tenant.entity, Resource: r.tenant.resource, Costs: costs, Limits: r.given()}
	c := call{tenant: r.tenant, costs: costs, sent: now()}
	back := call{tenant: r.tenant}
	count := func(*counts) {}
	ran := false
	err := lim.Do(ctx, req, func(_ context.Context, lease *limiter.Lease) error {
		c.answered, ran = now(), true
		f.book.granted(c)
		time.Sleep(r.hold)
		defer func() { back.sent = now() }()
		switch {
		case r.fails:
			back.costs, count = negative(costs), func(n *counts) { n.rolledBack++ }
			return errModel
		case r.settle != 0:
			back.costs, count = limiter.Costs{"tpm": r.settle}, func(n *counts) { n.adjusted++ }
			return lease.Settle(limiter.Costs{"tpm": r.estimate + r.settle})
		}
		return nil
	})
	if !ran {
		c.answered = now()
		f.refused(ctx, c, err)
		return
	}
	back.answered = now()
	switch {
	case errors.Is(err, limiter.ErrUnavailable): // Do has let go of the lease, and nothing was written
		f.book.count(func(n *counts) { n.unsettled++ })
	case errors.Is(err, limiter.ErrUnknown):
		f.book.settled(back, func(n *counts) { n.lostSettlements++ }, false)
	case err == nil || errors.Is(err, errModel):
		f.book.settled(back, count, true)
	default:
		f.book.failed(err)
	}
}

var errModel = errors.New("the model failed")

// refused books an acquire without a grant.
func (f *fleet) refused(ctx context.Context, c call, err error) {
	switch {
	case errors.Is(err, limiter.ErrLimited):
		f.book.refused(c, func(n *counts) {
			n.denied++
			if c.tenant.entity == hotEntity {
				n.hotDenied++
			}
		}, false)
	case errors.Is(err, limiter.ErrUnavailable):
		f.book.refused(c, func(n *counts) { n.unavailable++ }, false)
	case errors.Is(err, limiter.ErrUnknown):
		f.book.refused(c, func(n *counts) { n.unknown++ }, true)
	case ctx.Err() == nil:
		f.book.failed(err)
	}
}

func negative(costs limiter.Costs) limiter.Costs {
	out := make(limiter.Costs, len(costs))
	for _, limit := range slices.Sorted(maps.Keys(costs)) {
		out[limit] = -costs[limit]
	}
	return out
}

// now is the only clock of the clients' observations: epoch milliseconds, as the limiter reads it.
func now() int64 { return time.Now().UnixMilli() }
