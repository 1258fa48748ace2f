package limiter

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// failed takes in why a write did not hold and pauses where that helps. Refused: what the shard holds
// instead is known now. Over ends the group's turn, with an error or to decide again; otherwise it is
// planned again, from the image that came back.
func (l *Limiter) failed(ctx context.Context, k *desk, c known.Choice, p known.Planned, tries *progress,
	cause error) (refused, over bool, err error) {
	last := tries.calls >= known.MaxRounds
	if r, ok := errors.AsType[*store.Refused](cause); ok {
		if r.Old == nil { // there is no such shard: decide again without it
			k.Missing(l.now(), c.Shard)
			l.restore(ctx, k, c.Shard)
			return true, last || c.Shard > 0 || tries.apart, nil
		}
		b, err := table.DecodeShard(r.Old)
		if err != nil { // an answer, and the trouble of this bucket alone
			return false, true, err
		}
		displaced := k.Refused(b, p, l.now()) // else its image says what there is: plan again
		if p.Charges {
			l.tell(ctx, Event{Kind: EventRefused, Entity: b.Entity, Resource: b.Resource})
		}
		return true, last || c.Do == known.Look || displaced, nil
	}
	if last || !tries.pauses.pause(ctx, cause, tries.calls) {
		b, err := l.explain(ctx, cause, p.Write, &tries.mended)
		if err == nil {
			return true, last || k.Refused(b, p, l.now()), nil
		}
		return false, true, err
	}
	return false, false, nil // nothing was written, and the pause is over: send it again
}

// taken makes the leases of a write that held. From here on the tokens are taken,
// whatever else goes wrong.
func (l *Limiter) taken(ctx context.Context, k *desk, f *flight, p known.Planned, group []*acquirer, sent int,
	it item.Item) {
	b, err := table.DecodeShard(it)
	if err != nil {
		k.Unanswered(p, true)
		if p.Takes {
			err = l.unread(ctx, group, p.Shard, err)
		}
		l.end(k, p.Shard, f, group, turn{err: err})
		return
	}
	var few [4]known.Want
	wants := wantsOf(group, few[:0])
	l.tellAhead(ctx, p, group, sent) // first: an observer may panic
	levels := k.Took(b, p, known.Joined(wants), wants, l.now())
	l.land(k, p.Shard, f)
	l.mind(k, group[0].want.Name, p.Shard)
	l.grow(ctx, k, b)
	if !p.Takes {
		for _, w := range group {
			w.give(turn{})
		}
		return
	}
	leaseOf := func(w *acquirer, costs []table.Cost) *Lease {
		lease := &Lease{limiter: l, name: w.want.Name, counts: levels, after: &b}
		lease.one[0] = leaseItem{name: w.want.Name, key: p.Write.Target(), shard: p.Shard, taken: costs}
		lease.items = lease.one[:1:1]
		return lease
	}
	var left []*acquirer // whose callers do not wait for the answer any more
	for _, w := range group {
		if !k.deliver(w, leaseOf(w, w.want.Costs)) {
			left = append(left, w)
		}
	}
	if len(left) > 0 { // one write gives back what all of them have taken
		l.dropped(ctx, leaseOf(left[0], known.Joined(wantsOf(left, nil)).Costs))
	}
}

// unread gives back what a group has taken from an item that turned out to be unreadable: a plain
// add looks only at what it takes from. It returns the result for the group.
func (l *Limiter) unread(ctx context.Context, group []*acquirer, shard int, cause error) error {
	bounded := l.bounded(context.WithoutCancel(ctx))
	defer bounded.end()
	w := known.Joined(wantsOf(group, nil))
	key := layout.BucketKey(w.Namespace, w.Name.Entity, w.Name.Resource, shard)
	it := leaseItem{name: w.Name, key: key, shard: shard}
	err := l.settle(bounded, it, table.Shard{}, queue.Taking{}, negative(w.Costs))
	if err != nil {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(cause, err)}
	}
	return cause
}

// deliver gives an acquire its lease. It reports false if the caller does not wait for it any more.
func (k *desk) deliver(m *acquirer, lease *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.gone {
		return false
	}
	m.give(turn{lease: lease})
	return true
}

// dropped gives back in the background what was taken for callers that have left.
func (l *Limiter) dropped(ctx context.Context, leases ...*Lease) {
	ctx = context.WithoutCancel(ctx)
	l.background.Go(func() { l.giveBack(ctx, leases) }) // which reports the result
}
