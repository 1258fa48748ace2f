package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

const (
	// processes is how many clients there are, each with its own connection pool and caches, like
	// processes on different machines.
	processes = 8
	// inFlight bounds the calls under way over all clients. If the machine cannot keep up, requests
	// that would begin more than maxLag late are left out, so the demo takes the same time
	// everywhere.
	inFlight = 24
	maxLag   = time.Second
)

// fleet is the clients. It is safe for concurrent use.
type fleet struct {
	limiters []*limiter.Limiter
	book     *clients.Book
	lost     atomic.Int64 // writes lost to a faster client
	leftOut  atomic.Int64 // requests not sent because the machine is too slow
	next     atomic.Int64
}

func openFleet(ctx context.Context, e *engine.Engine, table string, n int, l *clients.Book,
	change ...func(*limiter.Options)) (*fleet, error) {
	f := &fleet{book: l}
	observe := func(_ context.Context, e limiter.Event) {
		if e.Kind == limiter.EventRefused {
			f.lost.Add(1)
		}
	}
	for range n {
		opts := limiter.Options{Namespace: namespace, Register: true, Timeout: 5 * time.Second, MaxShards: maxShards,
			Observe: observe}
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

// play sends the requests at their times, from the clients in turn, and returns when all have ended
// or ctx is done.
func (f *fleet) play(ctx context.Context, requests []request) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, inFlight)
	begin := time.Now()
	for _, r := range requests {
		if smithytime.SleepWithContext(ctx, time.Until(begin.Add(r.at))) != nil {
			return
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

// one sends one request.
func (f *fleet) one(ctx context.Context, r request) {
	_ = f.book.Make(ctx, f.limiters[int(f.next.Add(1))%len(f.limiters)], r.call())
}

// now is the clock of the clients, epoch ms.
func now() int64 { return time.Now().UnixMilli() }
