package desk

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// work carries a plan out in the background, one at a time for each bucket. It is best effort: the
// request that it follows does not wait for it, every step is conditional, and the aggregator does
// the same.
func (d *Desks) work(ctx context.Context, n decide.Name, w decide.Work) {
	if k := d.StartGrowing(n); k != nil {
		d.background.Go(func() {
			ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), time.Now().Add(d.Timeout).Add(longestPlan))
			defer cancel()
			d.reshape(ctx, k, w.Plan, w.Count)
		})
	}
}

// Mend repairs a bucket with a missing shard, so that it can grant more, unless another goroutine
// changes its shards.
func (d *Desks) Mend(ctx context.Context, k *Desk) {
	if plan, count := k.Mend(); plan != nil {
		if k := d.StartGrowing(k.Name); k != nil {
			d.reshape(ctx, k, plan, count)
		}
	}
}

// reshape carries a plan out, and is StopGrowing at its end.
func (d *Desks) reshape(ctx context.Context, k *Desk, plan *shard.Plan, before int) {
	defer d.StopGrowing(k)
	given := plan.Images()
	_, err := shard.Run(ctx, each{d.Store, d}, plan, d.Now)
	if err != nil {
		d.Observe(ctx, Event{Kind: Upkeep, Name: k.Name, Op: "split", Err: err})
	}
	now := d.Now()
	k.Missing(now, plan.Absent()...)
	for _, image := range slices.Backward(plan.Images()) { // shard 0 last: its count is the true one
		if !slices.ContainsFunc(given, func(g table.Shard) bool { return decide.Same(g, image) }) {
			d.see(image, now, decide.Unsent)
		} // else it is no news, and must not look fresh: without another look a request waits for ever
		if plan.Changed() && image.State.Shard == 0 && image.State.Shards != before {
			d.Observe(ctx, Event{Kind: Reshaped, Name: k.Name, Before: before, After: image.State.Shards})
		}
	}
}

// StartGrowing returns the desk of a bucket whose shards the caller may change until StopGrowing,
// nil if another goroutine of this process is changing them.
func (ds *cache) StartGrowing(n decide.Name) *Desk {
	k := ds.Pin(n)
	if !k.growing.CompareAndSwap(false, true) {
		ds.Unpin(n)
		return nil
	}
	return k
}

func (ds *cache) StopGrowing(k *Desk) {
	k.growing.Store(false)
	ds.Unpin(k.Name)
}

// longestPlan bounds how long a plan is worked on, in addition to Options.Timeout for one call
// without an answer. Another process, or a later request, continues with it.
const longestPlan = time.Minute

// each is the store with Options.Timeout for each call on its own: a plan for 32 shards takes 62
// calls, one after the other, and behind a slow table none of them is late. All of them are writes.
type each struct {
	store.Store
	desks *Desks
}

// Write implements [store.Store].
func (e each) Write(ctx context.Context, w item.Write) (item.Item, error) {
	bounded := e.desks.Bounded(ctx)
	defer bounded.End()
	return e.Store.Write(bounded, w)
}

// Transact implements [store.Store].
func (e each) Transact(ctx context.Context, token string, writes []item.Write) error {
	bounded := e.desks.Bounded(ctx)
	defer bounded.End()
	return e.Store.Transact(bounded, token, writes)
}
