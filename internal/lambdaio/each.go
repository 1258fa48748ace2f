package lambdaio

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Each calls do for 0 to n-1, in that order, at most atOnce at a time, and returns
// when none runs any more. After ctx is done, or do has returned false, it begins
// no further one.
func Each(ctx context.Context, atOnce, n int, do func(i int) (goOn bool)) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	var stop atomic.Bool
	over := func() bool { return stop.Load() || ctx.Err() != nil }
	for i := 0; i < n && !over(); i++ {
		g.Go(func() error { // waits while atOnce are running
			if !over() && !do(i) {
				stop.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait()
}
