package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

const (
	warmRuns = 50 // runs of a path on one bucket
	entities = 5  // buckets of a path that can run only once per bucket
)

// act is an action on the bucket of an entity.
type act = func(ctx context.Context, entity string) error

// course is a path of the cost table: an act that is billed once for each of some entities, after a
// setup and some time.
type course struct {
	Row
	prefix string        // of the entities; courses with the same prefix use the same buckets one after the other
	warm   bool          // on one bucket, warmRuns times
	setUp  act           // for each entity; nil: none
	pass   time.Duration // time to pass after all setups
	run    act
	left   func(ctx context.Context, entity string, r *Row) error // checks the result of the first run; may be nil
}

// measure bills the courses one after the other.
func (f fleet) measure(ctx context.Context, courses []course) (rows []Row, err error) {
	for i, c := range courses {
		if err := f.bill(ctx, &c, cmp.Or(c.prefix, fmt.Sprintf("course-%d", i))); err != nil {
			return rows, fmt.Errorf("%s: %w", c.Path, err)
		}
		rows = append(rows, c.Row)
	}
	return rows, nil
}

func (f fleet) bill(ctx context.Context, c *course, prefix string) (err error) {
	of, runs := entities, entities
	if c.warm {
		of, runs = 1, warmRuns
	}
	name := func(i int) string { return fmt.Sprintf("%s-%d", prefix, i%of) }
	for i := range of {
		if c.setUp != nil {
			err = errors.Join(err, c.setUp(ctx, name(i)))
		}
	}
	if err != nil {
		return err
	}
	f.w.advance(c.pass)
	if c.Measured, err = f.w.billed(runs, func(i int) error { return c.run(ctx, name(i)) }); err != nil || c.left == nil {
		return err
	}
	return c.left(ctx, name(0), &c.Row)
}

// takes returns an act that acquires requests, see asks.
func takes(l *limiter.Limiter, requests int64) act {
	return func(ctx context.Context, e string) error {
		_, err := l.Acquire(ctx, asks(e, requests))
		return err
	}
}

// denies returns an act that acquires requests and must be denied.
func denies(l *limiter.Limiter, requests int64) act {
	return func(ctx context.Context, e string) error {
		if err := takes(l, requests)(ctx, e); !errors.Is(err, limiter.ErrLimited) {
			return fmt.Errorf("entity %q: got %v, want a denial", e, err)
		}
		return nil
	}
}

// then returns an act of several, until one fails.
func then(acts ...act) act {
	return func(ctx context.Context, e string) (err error) {
		for i := 0; i < len(acts) && err == nil; i++ {
			err = acts[i](ctx, e)
		}
		return err
	}
}

// later returns an act after a little time, so that a refill is due.
func (f fleet) later(do act) act {
	return func(ctx context.Context, e string) error {
		f.w.advance(17 * time.Millisecond)
		return do(ctx, e)
	}
}

// ending returns a course that ends a lease, which its setup acquires.
func (c course) ending(l *limiter.Limiter, requests int64, end func(context.Context, *limiter.Lease) error) course {
	leases := map[string]*limiter.Lease{}
	c.setUp = func(ctx context.Context, e string) (err error) {
		leases[e], err = l.Acquire(ctx, asks(e, requests))
		return err
	}
	c.run = func(ctx context.Context, e string) error { return end(ctx, leases[e]) }
	return c
}
