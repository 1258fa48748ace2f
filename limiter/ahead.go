package limiter

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// With Options.Ahead, or Limit.Ahead, a process takes more with a charge than the request needs,
// and grants its next requests from the rest, without a call. See docs/hot-keys.md.

// atHand grants a request from the tokens that this process has prefetched. It returns nil if they
// do not cover it, if the request has several parts, cascades or is granted anyway, or if its
// limits have to be looked up. It makes no call, and does not ask whether one would be answered.
func (l *Limiter) atHand(ctx context.Context, req Request, parts []portion) *Lease {
	p := &parts[0]
	k := l.desks.Get(p.name())
	if len(parts) > 1 || k == nil || !k.Holds() {
		return nil
	}
	cfg, ok := l.configs.Ready(k, p.own, l.now())
	if !ok || cfg.Cascade || cfg.Bypass {
		return nil
	}
	granted := &struct { // one piece of memory
		Lease
		costs [2]table.Cost
	}{}
	w, err := l.want(p.name(), p.Request, cfg, granted.costs[:0])
	if err != nil {
		return nil
	}
	h, reused, ok := l.desks.Grant(ctx, k, w)
	if !ok {
		return nil
	}
	lease := &granted.Lease
	lease.limiter, lease.request, lease.ahead = l, req, true
	lease.fill(w.Name, h.Image, h.Limits, h.Part())
	l.hold(lease, nil, reused)
	return lease
}
