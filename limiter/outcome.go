package limiter

import (
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// failed takes in why a write did not hold and pauses where that helps. Over ends
// the group's turn; otherwise it is planned again, from the image that came back.
func (l *Limiter) failed(ctx context.Context, k *known, c choice, p plan, tries *attempt, err error) (t turn,
	over bool) {
	last := tries.calls >= maxRounds
	if r, ok := errors.AsType[*store.Refused](err); ok {
		if r.Old == nil { // there is no such shard: decide again without it
			k.mu.Lock()
			k.missing(c.shard, l.now())
			k.mu.Unlock()
			l.restore(ctx, k, c.shard)
			return turn{again: true}, last || c.shard > 0 || tries.apart
		}
		b, err := table.DecodeShard(r.Old)
		if err != nil { // an answer, and the trouble of this bucket alone
			return turn{err: err}, true
		}
		displaced := k.refuse(b, l.now(), p) // else its image says what there is: plan again
		if p.charges {
			l.tell(ctx, Event{Kind: EventRefused, Entity: b.Entity, Resource: b.Resource})
		}
		return turn{again: true}, last || c.look || displaced
	}
	if last || !tries.pause(ctx, err, tries.calls) {
		b, err := l.explain(ctx, err, p.write)
		if err == nil {
			return turn{again: true}, last || k.refuse(b, l.now(), p)
		}
		return turn{err: err}, true
	}
	return turn{}, false // nothing was written, and the pause is over: send it again
}

// refuse remembers the image that a refused write brought. If the write was
// planned from one that covered its costs, others have taken them. It reports whether
// others have replaced limits of this process.
func (k *known) refuse(b table.Shard, now int64, p plan) (displaced bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.at(b.State.Shard)
	if p.charges && s.image.Generation == b.Generation {
		s.others.refused = now
	}
	k.see(b, now, p.since, nil)
	s.added = p.adds
	return k.displace(s, b, now)
}

// taken makes the leases of a write that held. From here on the tokens are taken,
// whatever else goes wrong.
func (l *Limiter) taken(ctx context.Context, k *known, shard int, p plan, group []*acquirer, it item.Item) {
	b, err := table.DecodeShard(it)
	if err != nil {
		if p.takes {
			err = l.unread(ctx, group, shard, err)
		}
		k.end(shard, group, turn{err: err})
		return
	}
	var own []table.Cost
	if p.takes {
		own = sum(group)
	}
	k.mu.Lock()
	k.see(b, l.now(), p.since, own)
	k.at(shard).underWay.removeAll(group) // the image shows it
	k.at(shard).added = false
	k.confirm(b, group[0].want, l.now())
	status := k.status(group[0].want.name.entity, group[0].want.costs, l.now())
	k.mu.Unlock()
	if !p.takes {
		for _, w := range group {
			w.turn <- turn{again: true}
		}
		return
	}
	leaseOf := func(w *acquirer, costs []table.Cost) *Lease {
		lease := &Lease{limiter: l, name: w.want.name, status: slices.Clone(status), items: []leaseItem{{
			name: w.want.name, key: b.Key(), shard: shard, taken: costs,
		}}}
		lease.learn(b)
		return lease
	}
	var left []*acquirer // whose callers do not wait for the answer any more
	for _, w := range group {
		lease := leaseOf(w, w.want.costs)
		k.mu.Lock()
		if w.gone {
			left = append(left, w)
		} else {
			w.turn <- turn{lease: lease}
		}
		k.mu.Unlock()
	}
	if len(left) > 0 { // one write gives back what all of them have taken
		lease := leaseOf(left[0], sum(left))
		ctx := context.WithoutCancel(ctx)
		l.background.Go(func() { _ = guarded(func() { _ = lease.Rollback(ctx) }) }) // which tells what came of it
	}
	l.grow(ctx, k, b)
}

// explain finds out why DynamoDB has rejected a write to a bucket: it does so if the
// write does arithmetic with what is no number. Then the error is the ErrUnreadable of
// that bucket, and not that the table is not set up. If a number is missing altogether
// the image is returned without an error, to decide again: the next charge mends that.
func (l *Limiter) explain(ctx context.Context, err error, w item.Write) (table.Shard, error) {
	if store.KindOf(err) != store.Setup {
		return table.Shard{}, err
	}
	items, failed := l.store.Read(ctx, true, w.Target())
	if failed != nil || items[0] == nil {
		return table.Shard{}, err
	}
	if b, odd := table.DecodeShard(items[0]); odd != nil || len(b.Partial) > 0 {
		return b, odd
	}
	return table.Shard{}, err
}

// unread gives back what a group has taken from an item that turned out to be
// unreadable: a plain add looks only at what it takes from. It returns what the group
// is told.
func (l *Limiter) unread(ctx context.Context, group []*acquirer, shard int, cause error) error {
	bounded := l.bounded(context.WithoutCancel(ctx))
	defer bounded.end()
	w := joined(group)
	key := table.BucketKey(w.namespace, w.name.entity, w.name.resource, shard)
	err := l.settle(bounded, leaseItem{name: w.name, key: key, shard: shard}, table.Shard{}, negative(w.costs))
	if err != nil {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(cause, err)}
	}
	return cause
}
