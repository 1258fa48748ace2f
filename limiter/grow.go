package limiter

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// grow doubles shards where this process is the one that sees the need: shard 0
// when a write meter is exhausted, or the shard just written when it is behind
// the count of shard 0. It is best effort: the request it follows is granted
// already, every step is conditional, and the aggregator does the same.
func (l *Limiter) grow(ctx context.Context, w want, b table.Bucket, hot bool) {
	v := l.images.view(w.name)
	var plan *shard.Plan
	switch {
	case len(b.Partial) > 0: // what is stored in part cannot be divided
		return
	case b.State.Shards < v.count && b.State.Shards > 0:
		plan = shard.Follow(b, v.count)
	case hot:
		zero, ok := v.shards[0]
		if !ok || zero.absent || len(zero.bucket.Partial) > 0 || zero.bucket.State.Shards != v.count || !zero.bucket.State.CanSplit(l.opts.MaxShards) {
			return
		}
		plan = shard.Double(zero.bucket)
	default:
		return
	}
	if l.growing.begin(w.name) != nil {
		return // another goroutine of this process is at it
	}
	defer l.growing.end(w.name)
	before := v.count
	steps, err := shard.Run(ctx, l.store, plan, l.now)
	if err != nil {
		l.opts.Observer.failed(w.name, outcome("split", w.name, err))
	}
	now := l.now()
	for _, image := range plan.Images() {
		l.images.see(image, now, &image.State)
		if steps > 0 && image.State.Shard == 0 && image.State.Shards > before {
			l.opts.Observer.split(w.name, image.State.Shards)
		}
	}
}

// open opens a shard that is missing although its parent has split it off, as
// an image of the parent shows: until then the parent holds its share, and
// opening it would hand that out twice. Best effort, like grow.
func (l *Limiter) open(ctx context.Context, w want, k int) {
	v := l.images.view(w.name)
	zero, ok := v.shards[0]
	if !ok || zero.absent || zero.bucket.State.Shards <= k {
		return
	}
	parent, ok := v.shards[bucket.SplitParent(k)]
	if !ok || parent.absent || parent.bucket.State.Shards < bucket.OpenedAt(k) {
		return
	}
	if l.growing.begin(w.name) != nil {
		return
	}
	defer l.growing.end(w.name)
	writes := table.Open(zero.bucket, k, zero.bucket.State.Shards, l.now())
	if err := l.store.Transact(ctx, store.NewToken(), writes); err != nil {
		return // somebody else opened it, shard 0 has moved on, or nobody answered
	}
	if b, err := table.DecodeBucket(writes[0].(item.Put).Item); err == nil {
		l.images.see(b, l.now(), &b.State)
	}
}
