package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/prefetch"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A process keeps slots of finished requests for its next ones: see package inflight.

// Reusable is how long, in ms, the slots of a request may serve other requests once it is done: as
// long as tokens taken ahead may be held. It is zero if that is not worthwhile, and while less than
// half of the slots are free: other requests would not see the slots that are idle here.
func (b *Bucket) Reusable(w Want, now int64) int64 {
	k := b.lock()
	defer b.mu.Unlock()
	s, life := k.shards[0], prefetch.Life(w.Costs, w.Ahead)
	if s == nil || s.holding == nil || !s.imaged() || !s.holding.demand.Busy(life, now) {
		return 0
	}
	for _, c := range w.Costs {
		if c.Limit.Returns() && s.level(c.Limit, now) < c.Limit.Capacity/2 {
			return 0
		}
	}
	return life
}

// grantSlots grants a request for slots only, if this process has them.
func (k *facts) grantSlots(w Want, now int64) (h Held, ok bool) {
	s := k.shards[0]
	asks := func(c table.Cost) bool { return !c.Limit.Returns() || c.Milli > 0 }
	if s == nil || s.holding == nil || !s.imaged() || w.Ahead == 0 || w.Reused == nil ||
		slices.ContainsFunc(w.Costs, asks) || !w.stored(s.image.State) {
		return Held{}, false
	}
	s.holding.demand.Asked(w.Costs, prefetch.Life(w.Costs, w.Ahead), now)
	h = s.held()
	h.Costs = w.Costs
	return h, true
}
