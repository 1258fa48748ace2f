package store

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	smithytime "github.com/aws/smithy-go/time"
)

// Retry calls f until it succeeds, fails with an error other than Throttled and Conflict (which
// mean that nothing was written), ctx is done, or all attempts are used up. The pauses grow from
// base, with jitter over their whole length. It returns the last error.
func Retry(ctx context.Context, attempts int, base time.Duration, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if !Passes(err) || try+1 >= attempts {
			return err
		}
		if smithytime.SleepWithContext(ctx, Jitter(try, base, 64*base)) != nil {
			return err
		}
	}
}

// Jitter returns a random pause before attempt try+1, uniform between zero and base doubled try
// times, and at most most ("full jitter").
func Jitter(try int, base, most time.Duration) time.Duration {
	d := most
	if try < 20 && base<<try < most {
		d = base << try
	}
	return time.Duration(Random() % uint64(d+1))
}

// Random returns 64 random bits: for pauses, and for the choice of a shard. It is safe for
// concurrent use.
func Random() uint64 { return source.Load().(func() uint64)() }

// SetRandom replaces the source of Random, and returns the previous one, so that a simulation can
// be repeated. It may be called at any time, because a timer of an earlier test may still call
// Random.
func SetRandom(f func() uint64) (before func() uint64) { return source.Swap(f).(func() uint64) }

var source atomic.Value

func init() { source.Store(rand.Uint64) }
