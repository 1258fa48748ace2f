package limiter

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// With Options.Ahead, or Limit.Ahead, a process takes more than a request needs with a charge, and grants its
// next requests from that, without a call. See docs/hot-keys.md.

// atHand grants a request from the tokens that this process has prefetched. It is nil if they do not
// cover it, if the request has several parts, cascades or is granted anyway, or if its limits have to be
// looked up. It makes no call, and does not ask whether one would be answered.
func (l *Limiter) atHand(ctx context.Context, req Request) *Lease {
	if len(req.Also) > 0 {
		return nil
	}
	n := req.name()
	k := l.desks.Get(n)
	if k == nil || !k.Holds() || !l.desks.Enter() {
		return nil
	}
	defer l.desks.Leave()
	own, err := ownLimits(k, req.Limits)
	if err != nil || req.validate() != nil {
		return nil
	}
	cfg, ok := l.configs.ready(k, own, l.now())
	if !ok || cfg.cascade || cfg.bypass {
		return nil
	}
	granted := &struct { // one piece of memory
		Lease
		costs [2]table.Cost
	}{}
	costs, err := price(granted.costs[:0], req, cfg.limits, l.now())
	if err != nil {
		return nil
	}
	w, reused := l.wants(n, costs, cfg), (*inflight.Lease)(nil)
	if slices.ContainsFunc(costs, isSlots) {
		wants := []decide.Want{w}
		reused, w = l.desks.Reuse(wants), wants[0]
		defer func() { l.desks.Unused(reused, false) }() // unless a lease has them
	}
	h, ok := l.desks.FromHeld(ctx, k, w)
	if !ok {
		return nil
	}
	lease := &granted.Lease
	lease.limiter, lease.request, lease.ahead = l, req, true
	lease.fill(n, h.Image, h.Limits, h.Part())
	l.hold(lease, nil, reused)
	reused = nil
	return lease
}
