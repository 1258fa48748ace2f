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
// when its write meter is exhausted, or the shard just written when it is behind
// the count of shard 0. It is best effort: the request it follows is granted
// already and does not wait for it, every step is conditional, and the aggregator
// does the same.
func (l *Limiter) grow(ctx context.Context, k *known, b table.Bucket) {
	if len(b.Partial) > 0 { // what is stored in part cannot be divided
		return
	}
	plan := l.growth(k, b)
	n := name{b.Entity, b.Resource}
	if plan == nil {
		return
	}
	if _, busy := l.growing.LoadOrStore(n, true); busy {
		return // another goroutine of this process is at it
	}
	before := b.State.Shards
	l.background.Go(func() {
		defer l.growing.Delete(n)
		ctx, cancel := l.bounded(context.WithoutCancel(ctx))
		defer cancel()
		steps, err := shard.Run(ctx, l.store, plan, l.now)
		if err != nil {
			l.opts.Observer.failed(n, outcome("split", n, err))
		}
		now := l.now()
		for _, image := range plan.Images() {
			l.images.see(image, now, unsent)
			if steps > 0 && image.State.Shard == 0 && image.State.Shards > before {
				l.opts.Observer.split(n, image.State.Shards)
			}
		}
	})
}

// growth returns the plan that the image of the shard just written asks for.
func (l *Limiter) growth(k *known, b table.Bucket) *shard.Plan {
	k.mu.Lock()
	defer k.mu.Unlock()
	if b.State.Shards < k.count && b.State.Shards > 0 {
		return shard.Follow(b, k.count)
	}
	if i := b.State.Index(bucket.WCU); i < 0 || b.State.Slots[i].Tokens >= bucket.WCUPerWrite {
		return nil
	}
	zero := k.shards[0]
	if !zero.imaged() || len(zero.bucket.Partial) > 0 || zero.bucket.State.Shards != k.count ||
		!zero.bucket.State.CanSplit(l.opts.MaxShards) {
		return nil
	}
	return shard.Double(zero.bucket)
}

// open opens a shard that is missing although its parent has split it off, as
// an image of the parent shows: until then the parent holds its share, and
// opening it would hand that out twice. Best effort, like grow.
func (l *Limiter) open(ctx context.Context, k *known, shard int) {
	if shard == 0 {
		return
	}
	k.mu.Lock()
	zero, parent := k.shards[0], k.shards[bucket.SplitParent(shard)]
	split := zero.imaged() && zero.bucket.State.Shards > shard &&
		parent.imaged() && parent.bucket.State.Shards >= bucket.OpenedAt(shard)
	var writes []item.Write
	if split {
		writes = table.Open(zero.bucket, shard, zero.bucket.State.Shards, l.now())
	}
	k.mu.Unlock()
	if !split {
		return
	}
	n := name{zero.bucket.Entity, zero.bucket.Resource}
	if _, busy := l.growing.LoadOrStore(n, true); busy {
		return
	}
	defer l.growing.Delete(n)
	if err := l.store.Transact(ctx, store.NewToken(), writes); err != nil {
		return // somebody else opened it, shard 0 has moved on, or nobody answered
	}
	if b, err := table.DecodeBucket(writes[0].(item.Put).Item); err == nil {
		l.images.see(b, l.now(), unsent)
	}
}
