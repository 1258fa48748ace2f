package limiter

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// With Options.Ahead, or Limit.Ahead, a process takes more than a request needs with a charge, and grants its
// next requests from that, without a call. See docs/hot-keys.md.

// atHand grants a request from what this process has taken ahead. It is nil if that does not
// cover it, if the request cascades or is granted anyway, or if what is in force has to be
// looked up. It makes no call, and does not ask whether one would be answered.
func (l *Limiter) atHand(ctx context.Context, req Request) *Lease {
	n := decide.Name{Entity: req.Entity, Resource: req.Resource}
	k := l.desks.get(n)
	if k == nil || !k.Holds() {
		return nil
	}
	begin := l.begin()
	own, err := req.validate(k)
	if err != nil {
		return nil
	}
	cfg, ok := l.configs.ready(n, own != nil, l.now())
	if !ok || cfg.cascade || cfg.bypass {
		return nil
	}
	if own == nil {
		own = cfg.limits
	}
	granted := &struct { // one piece of memory
		Lease
		costs [2]table.Cost
	}{Lease: Lease{limiter: l, request: req, ahead: true}}
	lease := &granted.Lease
	costs, err := price(granted.costs[:0], req, own)
	if err != nil {
		return nil
	}
	w, reused := l.wants(n, costs, cfg, own), (*slots.Lease)(nil)
	if slices.ContainsFunc(costs, isSlots) {
		wants := []decide.Want{w}
		reused, w = l.reuse(wants), wants[0]
		defer func() { l.unused(reused, false) }() // unless a lease has them
	}
	h, ok := k.Grant(w, l.moment)
	if !ok {
		return nil
	}
	l.renew(ctx, k, w, h)
	lease.fill(n, h.Image, h.Limits, h.Part())
	l.hold(lease, nil, reused)
	reused = nil
	l.tellAcquire(ctx, req, begin, &attempt{held: true}, lease, nil)
	return lease
}

// renew takes more ahead in the background where a grant says so, by a request for nothing of the
// limits that it was granted by.
func (l *Limiter) renew(ctx context.Context, k *desk, w decide.Want, h decide.Held) {
	if h.Renew {
		l.takeMore(ctx, k, w, h)
	}
}

// takeMore takes more ahead of the shard that a request was granted from. It is no part of renew: what
// its goroutine needs would be made for each grant.
func (l *Limiter) takeMore(ctx context.Context, k *desk, w decide.Want, h decide.Held) {
	ctx = context.WithoutCancel(ctx)
	w.Costs = table.Costs(table.LimitsOf(h.Costs))
	shard := h.Image.State.Shard
	l.background.Go(func() {
		defer k.Renewed(shard)
		within := l.bounded(ctx)
		defer within.end()
		tries := &attempt{}
		l.prepare(within, tries)
		tries.Want, tries.Renews = w, true
		_ = guarded(func() {
			var effects decide.Effects
			k.Renew(&tries.Waiter, shard, l.moment, &effects)
			l.carryOut(within, k, &effects)
			a := l.await(within, k, tries)
			if a.Err != nil || tries.Calls > 0 { // else another's write has renewed it
				l.heard(ctx, w.Name, w.Name, a.Err)
			}
			if sent := tries.Calls; a.Result != decide.Granted && sent > 0 {
				e := Event{Kind: EventAhead, Entity: w.Name.Entity, Resource: w.Name.Resource, Writes: sent}
				if a.Err != nil {
					e.Err = outcome("take ahead", w.Name, a.Err)
				}
				l.tell(within, e)
			}
		})
	})
}

// absorb settles costs with what is held of a shard, and reports whether that has room. What is
// owed still, by the image with which the lease was charged, was never there: it is the table's.
func (l *Limiter) absorb(it leaseItem, image table.Shard, costs []table.Cost) bool {
	k := l.desks.peek(it.name)
	if k == nil || slices.ContainsFunc(costs, isSlots) || image.Entity == "" || image.State.Shard != it.shard ||
		decide.PaidBack(image, limitNames(costs)) > l.now() {
		return false
	}
	return k.GiveBack(it.shard, negative(costs), l.moment)
}
