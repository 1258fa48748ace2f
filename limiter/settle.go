package limiter

import (
	"context"
	"errors"
	"slices"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const settleAttempts = 8

// settle settles costs on one item. A bucket that is no longer there has nothing
// to settle, nor has a limit that the bucket no longer has.
//
// Giving back is one update that holds whatever the item looks like. Taking more
// must reckon with what the bucket has gained since, or the next refill would
// forgive it; so it is a charge by force, from the last image, decided again when
// that turns out to be old. If others keep winning, it is taken anyway.
func (l *Limiter) settle(ctx context.Context, it leaseItem, image table.Shard, costs []table.Cost) error {
	costs = slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool { return c.Milli == 0 })
	if len(costs) == 0 {
		return nil
	}
	if it.local {
		l.locals.adjust(it.name, costs, l.now())
		return nil
	}
	more := slices.ContainsFunc(costs, func(c table.Cost) bool { return c.Milli > 0 })
	since, n := unsent, it.name
	if s, ok := l.images.view(n).shards[it.shard]; ok && !s.absent {
		image, since = s.bucket, s.serial
	} else if image.State.Shard != it.shard {
		image = table.Shard{} // of another shard that paid
	}
	plain := false
	for try := 1; ; try++ {
		now := l.now()
		write := table.Adjust(it.key, costs)
		if plain {
			write = table.AdjustUnmetered(it.key, costs)
		}
		charging := more && image.Entity != "" && try < settleAttempts
		if charging {
			write = table.Charge{Image: image, Want: adjustable(image.State, costs), Costs: costs, Now: now,
				Life: table.KeepLifetime, Force: true}.Plan().Update
		}
		item, err := l.store.Write(ctx, write)
		if err == nil {
			l.settled(ctx, item)
			return nil
		}
		if refused, ok := errors.AsType[*store.Refused](err); ok {
			if refused.Old == nil {
				parent, ok := it.parent()
				if !ok {
					return nil // the bucket is gone
				}
				it, image, since = parent, table.Shard{}, unsent // the shard has merged: its parent has what it held
				if s, ok := l.images.view(n).shards[it.shard]; ok && !s.absent {
					image, since = s.bucket, s.serial
				}
				continue
			}
			b, err := table.DecodeShard(refused.Old)
			if unmetered := err != nil || b.State.Index(bucket.WCU) < 0; unmetered && !plain {
				image, plain = table.Shard{}, true // settle without looking, or counting the write
				continue
			}
			if !charging {
				left := still(b, costs)
				if len(left) == 0 || len(left) == len(costs) {
					return nil // what was charged is not there any more
				}
				costs = left
				continue
			}
			l.images.see(b, now, since)
			image = b
			continue
		}
		kind := store.KindOf(err)
		if (kind != store.Throttled && kind != store.Conflict) || try >= 2*settleAttempts ||
			smithytime.SleepWithContext(ctx, store.Jitter(try, contentionPause, 32*contentionPause)) != nil {
			return err
		}
	}
}

// still returns the costs of limits that the bucket still has.
func still(b table.Shard, costs []table.Cost) []table.Cost {
	return slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool {
		return b.State.Index(c.Limit) < 0 &&
			!slices.ContainsFunc(b.Partial, func(p table.PartialLimit) bool { return p.Name == c.Limit && p.HasTokens })
	})
}

// adjustable returns the limits of a state but for the write meter; if they are
// more than one write can name, those that have a cost.
func adjustable(s bucket.State, costs []table.Cost) []bucket.Limit {
	out := make([]bucket.Limit, 0, len(s.Slots))
	for _, sl := range s.Slots {
		named := slices.ContainsFunc(costs, func(c table.Cost) bool { return c.Limit == sl.Name })
		if sl.Name != bucket.WCU && (named || len(s.Slots) <= MaxLimits+1) {
			out = append(out, sl.Limit)
		}
	}
	return out
}

// settled remembers the image of a settled item. When its debt could outlive
// it, its expiry is moved.
func (l *Limiter) settled(ctx context.Context, item item.Item) {
	b, err := table.DecodeShard(item)
	if err != nil {
		return // the next acquire will say what is wrong with the item
	}
	now := l.now()
	l.images.see(b, now, unsent)
	u, ok := table.Prolong(b, now)
	if !ok {
		return
	}
	err = store.Retry(ctx, settleAttempts, contentionPause, func() error {
		_, err := l.store.Write(ctx, u)
		return err
	})
	if n := (name{b.Entity, b.Resource}); store.KindOf(err) != 0 {
		l.tell(ctx, Event{Kind: EventUpkeep, Entity: n.entity, Resource: n.resource, Err: outcome("prolong", n, err)})
	}
}
