package main

import (
	"context"
	"time"
)

const (
	// calmTime is how long a few requests go on at most after the rush, calmEvery
	// how often one comes: a bucket that is not written to tells nobody that it is
	// cool. Each request is two writes, and no second may see more than two on one
	// shard: a tenth of its write meter, see hotWCU.
	calmTime  = 30 * time.Second
	calmEvery = 1200 * time.Millisecond
)

// calm plays a few requests on the hot bucket until it has merged into one shard,
// or calmTime is over.
func (d *demo) calm(ctx context.Context) {
	begin := time.Now()
	d.calmed = begin.UnixMilli()
	tick := time.NewTicker(calmEvery)
	defer tick.Stop()
	for i := 1; time.Since(begin) < calmTime; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.fleet.one(ctx, request{tenant: &tenants[0], estimate: reserve})
		if d.rig.watcher.count() == 1 {
			return
		}
		if i%2 == 0 {
			d.progress()
		}
	}
}
