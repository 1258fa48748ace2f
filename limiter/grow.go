package limiter

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// grow splits a shard where this process is the one that sees the need (see
// [decide.Bucket.Growth]). It is best effort: the request it follows is granted already and
// does not wait for it, every step is conditional, and the aggregator does the same.
func (l *Limiter) grow(ctx context.Context, k *desk, b table.Shard) {
	plan, count := k.Growth(b, l.now())
	l.work(ctx, decide.Name{Entity: b.Entity, Resource: b.Resource}, plan, count)
}

// work carries a plan out in the background, one at a time for each bucket.
func (l *Limiter) work(ctx context.Context, n decide.Name, plan *shard.Plan, before int) {
	if plan == nil {
		return
	}
	k := l.desks.startGrowing(n)
	if k == nil {
		return
	}
	l.background.Go(func() {
		defer l.desks.stopGrowing(k)
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), time.Now().Add(l.opts.Timeout).Add(longestPlan))
		defer cancel()
		given := plan.Images()
		steps, err := shard.Run(ctx, each{l.store, l}, plan, l.now)
		if err != nil {
			l.tell(ctx, Event{Kind: EventUpkeep, Entity: n.Entity, Resource: n.Resource, Err: outcome("split", n, err)})
		}
		now := l.now()
		k.Missing(now, plan.Absent()...)
		for _, image := range slices.Backward(plan.Images()) { // shard 0 last: its count is the true one
			if !slices.ContainsFunc(given, func(g table.Shard) bool { return decide.Same(g, image) }) {
				l.desks.see(image, now, decide.Unsent)
			} // else it is no news, and must not look fresh: who never looks again waits for ever
			if steps > 0 && image.State.Shard == 0 && image.State.Shards != before {
				l.tell(ctx, splitOrMerge(n, before, image.State.Shards))
			}
		}
	})
}

// startGrowing returns the desk of a bucket whose shards the caller may change until stopGrowing,
// nil if another goroutine of this process is changing them.
func (ds *desks) startGrowing(n decide.Name) *desk {
	k := ds.pin(n)
	if !k.growing.CompareAndSwap(false, true) {
		ds.unpin(n)
		return nil
	}
	return k
}

func (ds *desks) stopGrowing(k *desk) {
	k.growing.Store(false)
	ds.unpin(k.name)
}

// longestPlan is how long a plan is worked on at most, beside Options.Timeout for one call that has
// no answer. Another process, or a later request, goes on with it.
const longestPlan = time.Minute

// each is the store with the limiter's bound for each call on its own: a plan for 32 shards takes
// 62 calls, one after the other, and behind a slow table none of them is late. All of them are writes.
type each struct {
	store.Store
	limiter *Limiter
}

// Write implements [store.Store].
func (e each) Write(ctx context.Context, w item.Write) (item.Item, error) {
	ctx, end := e.bounded(ctx)
	defer end()
	return e.Store.Write(ctx, w)
}

// Transact implements [store.Store].
func (e each) Transact(ctx context.Context, token string, writes []item.Write) error {
	ctx, end := e.bounded(ctx)
	defer end()
	return e.Store.Transact(ctx, token, writes)
}

func (e each) bounded(ctx context.Context) (within context.Context, end func()) {
	b := e.limiter.bounded(ctx)
	return b, b.end
}

// splitOrMerge is the event of a bucket that has more shards than before, or fewer.
func splitOrMerge(n decide.Name, before, after int) Event {
	e := Event{Kind: EventSplit, Entity: n.Entity, Resource: n.Resource, Shards: after}
	if after < before {
		e.Kind = EventMerge
	}
	return e
}

// restore puts back a shard that is missing, if that is safe (see
// [decide.Bucket.Restorable]). Best effort, like grow. If one shard was deleted, others may
// have been too, so it looks at all that are not known.
func (l *Limiter) restore(ctx context.Context, k *desk, missing int) {
	if missing == 0 {
		return
	}
	like, ok := k.Restorable(missing)
	if !ok {
		return
	}
	writes := table.Restore(like, missing, like.State.Shards, l.now(), random())
	n := decide.Name{Entity: like.Entity, Resource: like.Resource}
	at := l.desks.startGrowing(n)
	if at == nil {
		return
	}
	err := func() error {
		defer l.desks.stopGrowing(at)
		return l.store.Transact(ctx, rand.Text(), writes)
	}()
	if err != nil {
		return // somebody else restored it, shard 0 has moved on, or nobody answered
	}
	b, err := table.DecodeShard(writes[0].(item.Put).Item)
	if err != nil {
		return
	}
	plan, count := k.Restored(b, like, l.now())
	l.work(ctx, n, plan, count)
}
