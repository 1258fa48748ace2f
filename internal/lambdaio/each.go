package lambdaio

import (
	"context"
	"sync"
	"sync/atomic"
)

// Each calls do for 0 to n-1, at most atOnce at a time, and returns when none runs
// any more. After ctx is done, or do has returned false, it begins no further one.
// None is begun before those with a lower number, so what is left is the rest. That
// order is why it is no errgroup.Group, whose goroutines would look for ctx by
// themselves, in any order.
func Each(ctx context.Context, atOnce, n int, do func(i int) (goOn bool)) {
	var wg sync.WaitGroup
	var stop atomic.Bool
	free := make(chan struct{}, atOnce)
	for i := range n {
		free <- struct{}{} // only then look, because waiting takes time
		if stop.Load() || ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			if !do(i) {
				stop.Store(true)
			}
			<-free
		})
	}
	wg.Wait()
}
