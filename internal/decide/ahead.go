package decide

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/prefetch"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A busy process takes tokens ahead with a charge, and grants its next requests from them. Package
// prefetch decides how much to take, how much is still held of a shard, and how that changes the
// image. This file connects it to the facts about the bucket.

// holding is the state of the tokens that this process has taken ahead of one shard.
type holding struct {
	prefetch.Holding
	demand prefetch.Demand
	taken  []table.Cost // by the last charge that took ahead
	key    item.Key     // of the shard
	limits []bucket.Limit
	image  *table.Shard // a copy of the last one
	serial int          // of the image
	renews bool         // a charge that takes ahead before it is needed is on its way
	minded bool         // somebody gives back expired tokens of quotas
}

// hold makes the process hold tokens of a shard, if requests set a time for that.
func (k *facts) hold(s *seen) {
	if k.ahead == 0 || s.holding != nil {
		return
	}
	if s.holding = (&holding{}); s.imaged() {
		s.holding.See(s.image, k.ahead)
	}
}

// Holds reports whether anything may be granted from tokens taken ahead, as of the last grant or
// charge. It does not block.
func (b *Bucket) Holds() bool { return b.holds.Load() }

// holds reports whether anything is held of any shard.
func (k *facts) holds() bool {
	for _, s := range k.shards {
		if s.holding != nil && s.holding.Some() {
			return true
		}
	}
	return false
}

// Grant grants a request from tokens taken ahead; ok is false if they do not cover it.
func (b *Bucket) Grant(w Want, clock func() Now) (h Held, ok bool) {
	k := b.lock()
	defer b.mu.Unlock()
	if h, ok = k.grant(w, clock()); !ok {
		b.holds.Store(k.holds())
	}
	return h, ok
}

func (k *facts) grant(w Want, now Now) (h Held, ok bool) {
	k.ahead = w.Ahead
	if now.Ms < k.drained {
		return Held{}, false
	}
	w, _ = k.inForce(w, now.Ms)
	if h, ok = k.grantSlots(w, now.Ms); ok {
		return h, true
	}
	for s := range k.each() {
		if s.holding == nil || !s.holding.Take(w.Costs, now.instant()) {
			continue
		}
		s.holding.demand.Asked(w.Costs, prefetch.Life(w.Costs, k.ahead), now.Ms)
		h = s.held()
		h.Costs = w.Costs
		h.Renew = k.low(s, w, now)
		s.holding.renews = s.holding.renews || h.Renew
		return h, true
	}
	return Held{}, false
}

// mustReport reports whether a charge has to report that less is held, or expired tokens.
func (s *seen) mustReport(now Now) bool {
	return s.holding != nil && s.holding.MustReport(now.instant())
}

// low reports whether more is to be taken ahead now.
func (k *facts) low(s *seen, w Want, now Now) bool {
	h := s.holding
	if h.renews || h.Asking() || !h.Low(&h.demand, h.taken, now.Trip, now.instant()) {
		return false
	}
	due := s.share(w).from(0, decider{facts: k, want: w, now: now.Ms}.lump(s), now.Ms)
	return due <= now.Ms && k.size(s, w, k.life(s, w.Costs, now.Trip, now.Ms), now) != nil
}

// Renewed notes that the charge that Grant asked for has ended, whether it succeeded or not.
func (b *Bucket) Renewed(shard int) {
	k := b.lock()
	defer b.mu.Unlock()
	if h := k.at(shard).holding; h != nil {
		h.renews = false
	}
}

// GiveBack returns a lease's surplus on a shard (positive costs) to the held tokens, or takes more
// for the lease (negative ones). It reports whether the held tokens have room for all of it. If
// not, nothing changes, and the caller settles with the table.
func (b *Bucket) GiveBack(shard int, costs []table.Cost, clock func() Now) bool {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.shards[shard]
	if s == nil || s.holding == nil {
		return false
	}
	return s.holding.Settle(costs, clock().instant())
}

// leaves estimates the tokens that others leave by the time a write arrives, after trip
// milliseconds under way. Without that, some take too much: at 500 % of 1000 a second Jain's index
// of 16 processes falls from 0.99 to 0.94.
func (s *seen) leaves(costs []table.Cost, trip float64, now int64) []int64 {
	levels := make([]int64, len(costs))
	for i, c := range costs {
		others := s.others.rate(c.Limit.Name) * (float64(max(now-s.at, 0)) + trip)
		levels[i] = s.level(c.Limit, now) - int64(others)
	}
	return levels
}

// size is how much is taken ahead with a charge, nil for nothing: at most half of the tokens that
// others probably leave, so that the last ones are not stranded in one process, and at most this
// process's saved share. The price is the chance that a token which expires unused is missed: that
// the bucket runs dry before it is full. A random walk from a level does so with a chance of 1 -
// level/capacity if all of the refill is used, and otherwise smaller by e^(-2 n unused), for a
// level of n steps. A process takes the demand of a whole life at once, so that is a step. If
// processes share a refill, every token is missed.
func (k *facts) size(s *seen, w Want, life int64, now Now) []table.Cost {
	room, p := s.leaves(w.Costs, now.Trip, now.Ms), s.share(w)
	demand, price, unused := &s.holding.demand, 0., 1.
	for i, c := range w.Costs {
		level := max(0, float64(room[i]))
		room[i] /= 2
		flow, r := demand.Of(c.Limit.Name), s.image.State.RateOf(c.Limit)
		if !paced(c.Limit) || r.Amount == 0 || flow == 0 {
			continue
		}
		refill := float64(r.Amount) / float64(r.Period)
		part := s.others.unused(c.Limit.Name, refill)
		dry := (1 - level/float64(r.Capacity)) * math.Exp(-2*part*level/flow/float64(max(life, 1)))
		price, unused = max(price, dry), min(unused, part)
		if p.part > 0 {
			price, room[i] = 1, min(room[i], int64(max(0, p.credit(0, now.Ms))*refill))
		}
	}
	price = max(price, demand.Missed(unused, life, now.Ms))
	left := func(limit string) int64 { return s.holding.Left(limit, now.instant()) }
	return demand.Size(w.Costs, room, price, left, life, now.Ms)
}

// takeAhead makes a charge take tokens ahead, if that is worthwhile, and report held and expired
// tokens. A charge that does neither is returned as it is, without Ahead. A charge that brings
// other limits in force takes nothing ahead. The costs are already under way.
func (k *facts) takeAhead(s *seen, w Want, charge table.Charge, now Now) table.Charge {
	h := s.holding
	if h == nil || w.floored() || len(s.image.Partial) > 0 || s.clockless(now.Ms) {
		return charge
	}
	life := k.life(s, w.Costs, now.Trip, now.Ms)
	var take []table.Cost
	if w.stored(s.image.State) {
		take = k.size(s, w, life, now)
	}
	if take == nil {
		if !s.mustReport(now) {
			return charge
		}
		take = table.Costs(table.LimitsOf(w.Costs))
	}
	charge.Ahead = h.Ask(s.image, take, life, now.instant())
	if charge.Ahead == nil {
		return charge
	}
	charge.Costs = make([]table.Cost, len(w.Costs))
	for i, c := range w.Costs {
		charge.Costs[i] = table.Cost{Limit: c.Limit, Milli: bucket.AddSat(c.Milli, take[i].Milli)}
	}
	ms, _ := s.costs(Want{Costs: take})
	s.share(w).take(ms)
	charge.Slack = 0 // near full a level is shown lower by the held tokens anyway
	return charge
}

// granted handles the answer to a plan: the tokens that it took ahead are held from now on.
func (k *facts) granted(s *seen, image table.Shard, p Planned, group []Want, now int64) {
	if k.ahead == 0 && p.ahead == nil || len(group) > 0 && group[0].floored() {
		return
	}
	k.hold(s)
	h := s.holding
	for _, w := range group {
		h.demand.Asked(w.Costs, prefetch.Life(w.Costs, k.ahead), now)
	}
	if p.ahead != nil {
		h.taken = p.ahead.Take
		h.Done(prefetch.Written, image) // which may not be the last one
	}
}

// asked handles a request that is denied.
func (k *facts) asked(shard int, w Want, now int64) {
	if s := k.shards[shard]; k.ahead > 0 && s != nil && s.holding != nil && !w.floored() {
		s.holding.demand.Asked(w.Costs, prefetch.Life(w.Costs, k.ahead), now)
		s.holding.demand.Denied()
	}
}

// unanswered handles a plan that did not hold: it was not written, or its outcome is unknown.
func (k *facts) unanswered(p Planned, written bool) {
	if p.ahead == nil {
		return
	}
	outcome := prefetch.Refused
	if written {
		outcome = prefetch.Unknown
	}
	k.at(p.Shard).holding.Done(outcome, table.Shard{})
}

// held is the most tokens of a limit that processes may hold, on the shards seen so far, and for
// how long, in ms.
func (k *facts) held(limit string, now int64) (milli, over int64) {
	for n, s := range k.shards {
		until := int64(0)
		if n < k.count && s.imaged() {
			until = s.image.State.HeldAfter(now) - now
		}
		if i := s.image.State.Index(limit); until > 0 && i >= 0 && s.image.State.Slots[i].Held > 0 {
			milli, over = bucket.AddSat(milli, s.image.State.Slots[i].Held), max(over, until)
		}
	}
	return milli, over
}

// Left returns how much of a limit this process holds of a shard, in millitokens.
func (b *Bucket) Left(shard int, limit string, clock func() Now) (milli int64) {
	k := b.lock()
	defer b.mu.Unlock()
	if s := k.shards[shard]; s != nil && s.holding != nil {
		return s.holding.Left(limit, clock().instant())
	}
	return 0
}
