package main

import (
	"context"
	"sync"
	"time"

	smithytime "github.com/aws/smithy-go/time"
)

// calmEvery is the time between requests after the rush: the stream shows only with writes that a
// bucket is cool. Each request is two writes, and no second may have more than two on one shard: a
// tenth of its write meter, see hotWCU.
const calmEvery = 1200 * time.Millisecond

// exhaust requests the hot bucket's capacity at once until a request is denied, if none has been: a
// machine that is too slow sends fewer requests than the bucket allows.
func (d *demo) exhaust(ctx context.Context) {
	for d.book.Ends(hotEntity).Denied == 0 && ctx.Err() == nil {
		var all sync.WaitGroup
		for range hotLimits[0].Capacity {
			all.Go(func() { d.fleet.one(ctx, request{tenant: &tenants[0], calls: 2, estimate: reserve}) })
		}
		all.Wait()
	}
}

// calmRounds is the least number of requests, for the hot bucket and for each of the busy tenant's
// processes: after that many, all held tokens are surely reported.
const calmRounds = 6

// calm sends a few requests for the hot bucket until it has merged into one shard, or ctx is done.
func (d *demo) calm(ctx context.Context) {
	for i := 1; smithytime.SleepWithContext(ctx, calmEvery) == nil; i++ {
		d.fleet.one(ctx, request{tenant: &tenants[0], estimate: reserve})
		d.busy.rest(ctx)
		if d.rig.watcher.hot().end == 1 && i >= calmRounds {
			return
		}
		if i%2 == 0 {
			d.progress()
		}
	}
}
