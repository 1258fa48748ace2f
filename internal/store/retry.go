package store

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	smithytime "github.com/aws/smithy-go/time"
)

// Retry calls f until it succeeds, fails with anything but Throttled or
// Conflict (which both mean that nothing was written), ctx is done, or attempts
// are used up. Pauses grow from base and are jittered over their whole length.
// The last error is returned.
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

// Jitter returns a random pause before attempt try+1: uniform between zero and
// base doubled try times, at most most ("full jitter").
func Jitter(try int, base, most time.Duration) time.Duration {
	d := most
	if try < 20 && base<<try < most {
		d = base << try
	}
	return time.Duration(Random() % uint64(d+1))
}

// Random returns 64 random bits: for pauses, and for the choice of a shard. It is safe for
// concurrent use.
func Random() uint64 { return Source.Load().(func() uint64)() }

// Source holds the source of Random, a func() uint64. A test may swap it at any time, though a
// timer of an earlier test may still ask: so a simulation repeats a world.
var Source = func() *atomic.Value {
	v := new(atomic.Value)
	v.Store(rand.Uint64)
	return v
}()
