package decide

import "github.com/zeroae/zae-limiter-go/internal/bucket"

// choose decides the next step for a request. This table explains each denial:
//
//	others replaced the limits   it uses their limits for a while (yield.go)
//	denied a moment ago          and nothing new was seen since: denied again
//	one shard covers the costs   a write to that one
//	no shard does                look, bring limits, take from several, or deny (see decide)
//	outrun by others             denied for the time in which the costs refill
//	it waits                     into debt instead, if the queue has room (queue.go)
//
// A denial caused by a wrong count of shards, or by missing ones, comes with the plan that repairs
// that.
func (k *facts) choose(w Want, a *Attempt, now Now) Decision {
	k.ahead, k.trip = w.Ahead, now.Trip
	w, y := k.inForce(w, now.Ms)
	w.replaced = k.replaced
	out := Decision{Want: w, Yielded: y != nil && !y.reported, Count: k.count}
	if y != nil {
		y.reported = true
	}
	if !a.Waits && k.denied.covers(w, now.Ms) {
		k.asked(k.denied.c.Shard, w, now.Ms)
		out.Denial = k.denied.explain(k, now.Ms)
		return out
	}
	d := decider{facts: k, want: w, now: now.Ms, attempt: a, pick: now.Random}
	c := d.decide()
	tries, trips := max(a.Rounds, a.Calls), a.Trips+1
	if c.Do == Several { // all are read first
		trips++
	}
	if c.Do != Deny && c.Do != Never && (trips > MaxTrips && w.hard() || tries >= MaxRounds) {
		c = d.giveUp(c) // others take what there is
	}
	if a.Waits && (c.Do == Deny || c.Do == Look || c.Do == Adopt || a.InLine) {
		c = d.behind(c)
	}
	a.Rounds++
	out.Choice = c
	if c.Do == Deny {
		k.asked(c.Shard, w, now.Ms)
		denied := d.deny(c)
		out.Denial = denied.explain(k, now.Ms)
		if !a.Waits { // else it says nothing about those that do not
			k.denied = denied
		}
	}
	if c.Do == Deny || c.Do == Never {
		out.Mend = k.mend()
	}
	return out
}

// decide picks a shard to write to, or denies. It starts with the shard that this process visits
// for a while, or with a random one, so that requests spread over the shards:
//
//	its image covers the costs     write to it
//	it has no image                write to it, which brings one; to two of them at most
//	its image does not cover them  try the next shard
//
// It asks a second shard without an image only if the shard's share can cover the costs, or before
// a denial. If no shard covers the costs, the request is denied without a call (D4), unless the
// shards cover them together, or the images are too old to deny.
func (d decider) decide() Choice {
	if z := d.shards[0]; z != nil && z.absent { // there is no bucket: the write creates it
		return Choice{Do: Take}
	}
	d.need()
	start, soonest := d.first(), Choice{Do: Never, at: bucket.Never}
	stale, staleAt, taken, unseen := -1, int64(bucket.Never), false, -1
	for i := range d.count {
		k := d.nearest((start + i) % d.count)
		s := d.shards[k]
		if !s.imaged() {
			if d.attempt.Trips == 0 || d.attempt.Trips == 1 && d.fits(k) || d.blind() {
				return Choice{Do: Take, Shard: k}
			}
			unseen = k
			continue
		}
		got := d.decideOn(k, s)
		if got.Do == Take {
			d.visit(k)
			return got
		}
		soonest, taken = sooner(soonest, got), taken || got.taken
		if d.again(s.at) && (stale < 0 || got.at < staleAt ||
			got.at == staleAt && d.seenAt(s) < d.seenAt(d.shards[stale])) {
			stale, staleAt = k, got.at
		}
	}
	out := d.decideTogether(soonest, stale, taken)
	if out.Do == Deny && unseen >= 0 && d.attempt.Trips == 1 {
		return Choice{Do: Take, Shard: unseen}
	}
	return out
}

// decideOn decides on one shard from its image.
func (d decider) decideOn(k int, s *seen) Choice {
	v, short := s.covers(d.want, d.now)
	out := Choice{Shard: k, at: v.At, Limit: short}
	switch {
	case v.Granted:
		out.Do = Take
		at, limit, looks := d.allowed(s)
		if out.Asks = looks; at > d.now { // but it is the share of others
			out.Do, out.at, out.Limit, out.taken, out.guess = Deny, at, limit, true, true
		}
	case s.clockless(d.now):
		out.Do = Take // without a clock to refill from, the denial would never end
	case v.At == bucket.Never: // a cost exceeds the share
		out.Do = Never
	default:
		out.guess = d.turns(s)
	}
	return out
}

// decideTogether decides if no single shard covers the costs: soonest is the denial that ends
// first, and stale is the shard to look at, or -1. taken says that a shard would cover them if
// others took nothing.
func (d decider) decideTogether(soonest Choice, stale int, taken bool) Choice {
	switch {
	case d.count > 1 && soonest.Do == Never && !d.attempt.Spread && d.together() <= d.now:
		return d.gathers(soonest) // larger than a share; all shards are read for it, which is better than a look
	case d.outdated(): // tokens were put into the bucket since: read all shards
		return Choice{Do: Several}
	case stale >= 0 && d.attempt.Calls == 0 && !d.attempt.Met && d.again(d.lookedAt):
		return Choice{Do: Look, Shard: stale} // one for all: recovers first, or has the oldest image
	}
	if k, ok := d.unadopted(soonest); ok { // bring the limits before they deny
		return Choice{Do: Adopt, Shard: k}
	}
	if taken { // if others do leave it, one shard has it: a transaction finds no more
		return soonest
	}
	if d.count == 1 {
		if soonest.Do == Never && d.repair() != nil { // shard 0 has a count that is not believed
			soonest = d.mending(soonest)
		}
		return soonest
	}
	switch at := d.together(); {
	case at <= d.now && !d.attempt.Spread: // two shards that hold 3 each cover 5
		return d.gathers(soonest)
	case at < soonest.at: // they will, before any of them does alone
		soonest = d.until(soonest, at)
	case soonest.Do == Never:
		// The shares are fractions of tokens that do not add up to so many whole ones:
		// shards merge now (see repair), and then it can be had.
		soonest = d.mending(soonest)
	}
	return soonest
}
