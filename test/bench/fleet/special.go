package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Crowd lets goroutines of one process take single tokens from one bucket for a while. Each asks
// again at once after a grant. After a denial it waits for the returned time, and up to 20 ms more.
// The bucket is not allowed to split. It returns the result and the grants per second of virtual
// time. It has to be called inside a bubble.
func Crowd(ctx context.Context, b Bucket, goroutines int, length time.Duration) (Result, float64, error) {
	t := newTable(Case{Bucket: b, Seed: 1})
	l, err := t.process(ctx, limiter.Options{MaxShards: 1, Timeout: 10 * time.Second})
	if err != nil {
		return Result{}, 0, err
	}
	tokens := make([]int64, len(b.Limits))
	for i := range tokens {
		tokens[i] = 1
	}
	var o outcome
	var wg sync.WaitGroup
	t.reset()
	begin := time.Now()
	for range goroutines {
		wg.Go(func() {
			for time.Since(begin) < length {
				err := o.time(func() error { _, err := l.Acquire(ctx, b.request(tokens)); return err })
				if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
					time.Sleep(denied.RetryAfter + time.Duration(rand.Int64N(int64(20*time.Millisecond))))
				}
			}
		})
	}
	wg.Wait()
	t.result(&o.Result)
	return o.Result, float64(o.Granted) / time.Since(begin).Seconds(), nil
}

// Flood lets goroutines of one process ask for a token of an exhausted bucket,
// all at the same instants, 20 times a second. It returns the write units per
// second. It has to be called inside a bubble.
func Flood(ctx context.Context, goroutines, shards int, length time.Duration) (r Result,
	perSecond float64, err error) {
	const pause = 50 * time.Millisecond
	b := Bucket{Name: "flood", Limits: []limiter.Limit{limiter.PerDay("rpd", 1<<10)}, Cost: one}
	t := newTable(Case{Bucket: b, Seed: 1})
	l, err := t.process(ctx, limiter.Options{})
	if err != nil {
		return r, 0, err
	}
	if err := t.exhaust(ctx, l, b, shards); err != nil {
		return r, 0, err
	}
	var o outcome
	var wg sync.WaitGroup
	t.reset()
	begin := time.Now()
	for range goroutines {
		wg.Go(func() {
			for at := begin; at.Sub(begin) < length; at = at.Add(pause) {
				time.Sleep(time.Until(at))
				_ = o.time(func() error { _, err := l.Acquire(ctx, b.request([]int64{1})); return err })
			}
		})
	}
	wg.Wait()
	t.result(&o.Result)
	return o.Result, float64(o.Writes) / length.Seconds(), nil
}

// exhaust splits a new bucket into shards and takes all that they hold.
func (t *tableStore) exhaust(ctx context.Context, l *limiter.Limiter, b Bucket, shards int) error {
	if _, err := l.Acquire(ctx, b.request([]int64{0})); err != nil {
		return err
	}
	for count := 1; count < shards; count *= 2 {
		for k := range count {
			items, err := t.db.Read(ctx, true, layout.BucketKey(l.NamespaceID(), entity, resource, k))
			if err != nil {
				return err
			}
			image, err := table.DecodeShard(items[0])
			if err != nil {
				return err
			}
			token, split := fmt.Sprintf("split-%d-%d", count, k), table.Split(image, time.Now().UnixMilli())
			if err := t.db.Transact(ctx, token, split); err != nil {
				return err
			}
		}
	}
	for {
		_, err := l.Acquire(ctx, b.request([]int64{1}))
		if errors.Is(err, limiter.ErrLimited) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Herd lets fresh processes ask for one token of a bucket at the same instant,
// of one that is there (and half full) or of none. It has to be called inside a
// bubble.
func Herd(ctx context.Context, processes int, there bool) (Result, error) {
	b := PerMinute
	t := newTable(Case{Bucket: b, Seed: 1})
	if there {
		l, err := t.process(ctx, limiter.Options{})
		if err != nil {
			return Result{}, err
		}
		if _, err := l.Acquire(ctx, b.request([]int64{300, 480_000})); err != nil {
			return Result{}, err
		}
		time.Sleep(10 * time.Second)
	}
	fresh := make([]*limiter.Limiter, processes)
	for i := range fresh {
		var err error
		if fresh[i], err = t.process(ctx, limiter.Options{}); err != nil {
			return Result{}, err
		}
	}
	t.reset()
	var o outcome
	var wg sync.WaitGroup
	for _, l := range fresh {
		wg.Go(func() {
			_ = o.time(func() error { _, err := l.Acquire(ctx, b.request([]int64{1, 1000})); return err })
		})
	}
	wg.Wait()
	t.result(&o.Result)
	o.Exact = processes
	return o.Result, nil
}
