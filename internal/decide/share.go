package decide

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/prefetch"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// share returns the share of requests with the same floor as w: a class with a higher floor sees a
// lower level, and has its own share.
func (s *seen) share(w Want) *share {
	floor := w.floor()
	p := s.shares[floor]
	if p == nil {
		if s.shares == nil {
			s.shares = make(map[int64]*share, 1)
		}
		p = &share{}
		s.shares[floor] = p
	}
	return p
}

// paced reports whether costs of a limit count for a share: if it refills, and may deny.
func paced(l bucket.Limit) bool { return l.Refills() && !l.Soft }

// costs returns the cost of a request in milliseconds of the shard's refill: of its limits, the one
// that takes longest to refill it.
func (s *seen) costs(w Want) (ms float64, limit string) {
	if !s.imaged() {
		return 0, ""
	}
	for _, c := range w.Costs {
		if r := s.image.State.RateOf(c.Limit); c.Milli > 0 && paced(c.Limit) && r.Amount > 0 {
			if need := float64(c.Milli) * float64(r.Period) / float64(r.Amount); need > ms {
				ms, limit = need, c.Limit.Name
			}
		}
	}
	return ms, limit
}

// begin notes costs of requests that are under way.
func (s *seen) begin(group ...Want) {
	for _, w := range group {
		s.underWay.add(w.Costs)
		if len(s.shares) > 0 {
			ms, _ := s.costs(w)
			s.share(w).take(ms)
		}
	}
}

// end notes costs of requests that are no longer under way, and were not taken.
func (s *seen) end(group ...Want) {
	for _, w := range group {
		s.underWay.remove(w.Costs)
		if len(s.shares) > 0 {
			ms, _ := s.costs(w)
			s.share(w).take(-ms)
		}
	}
}

// learn makes the share of a group follow the level in the answer to its write. refused: the image
// from which the write was planned covered it. others: they have taken since that image.
func (k *facts) learn(s *seen, p Planned, refused, others bool, now int64) {
	lowest, plenty := s.marks(p.want, p.members, p.took)
	if math.IsInf(lowest, 1) && !plenty {
		return
	}
	cost, _ := s.costs(p.want)
	busy := decider{facts: k, want: p.want, now: now}.sure(s) > 0
	s.share(p.want).answered(cost, lowest, refused && lowest < 1, others, busy, plenty, now)
}

// marks returns how many marks the image shows at least, of the limits that a group takes,
// infinitely many if the image does not say, and whether there is plenty of each. A shard that is
// too small for any mark, for example after a split, has plenty: a share that has begun before
// would never end.
func (s *seen) marks(w Want, members int, took []table.Cost) (lowest float64, plenty bool) {
	lowest, plenty = math.Inf(1), true
	largest := -1. // of the parts of a capacity that are less than a mark
	for j, c := range w.Costs {
		mean := float64(c.Milli) / float64(max(1, members))
		if took != nil {
			c = took[j]
		}
		i := s.image.State.Index(c.Limit.Name)
		if i < 0 || c.Milli <= 0 || !paced(c.Limit) {
			continue
		}
		r, floor := s.image.State.Rate(i), c.FloorIn(s.image.State)
		left := float64(bucket.SubSat(s.image.State.Slots[i].Tokens, floor)) // then: since, others may have taken
		capacity := float64(r.Capacity - floor)
		mark := max(min(markTime*float64(r.Amount)/float64(r.Period), markMost*capacity), bucket.Milli, mean)
		if mark > markTells*capacity {
			largest = max(largest, markTells*capacity)
			continue
		}
		if took != nil {
			mark = max(mark, min(float64(c.Milli), markTells*capacity))
		}
		lowest = min(lowest, left/mark)
		plenty = plenty && left > min(shareRoom*capacity, shareFree*mark)
	}
	if math.IsInf(lowest, 1) {
		return lowest, largest >= 0 && largest < bucket.Milli // else it has marks for smaller requests
	}
	return lowest, plenty
}

// allowed returns the instant from which this process's share has room for the costs, and the limit
// that bounds it. It applies only as long as the image may deny; then a write goes out anyway, but
// to take from several shards only if it is the look at all of them. Otherwise each process would
// ask each shard once in that time: 8 processes on 8 shards would send 64 writes a second even if
// nothing is left.
func (d decider) allowed(s *seen) (at int64, limit string, looks bool) {
	if len(s.shares) == 0 || s.holding != nil && s.holding.Asking() {
		return d.now, "", false
	}
	ms, limit := s.costs(d.want)
	if ms == 0 { // it takes nothing that is shared
		return d.now, "", false
	}
	p := s.share(d.want)
	if d.attempt != nil {
		p.asked(ms)
	}
	at, seen := p.from(ms, d.lump(s), d.now), s.at
	if at > d.now && len(d.want.Costs) > 1 { // it may be another limit that is short
		if _, plenty := s.marks(d.want, d.members, nil); plenty {
			return d.now, "", false
		}
	}
	switch outlived := d.again(s.at); {
	case at <= d.now || outlived && d.count == 1:
		return d.now, "", false
	case outlived && (d.looks || d.again(d.lookedAt)):
		return d.now, "", true
	case d.count > 1:
		seen = min(max(s.at, d.lookedAt), d.now)
	}
	return min(at, max(seen+d.DenyFor, d.now+1)), limit, false
}

// life is how long tokens that a charge takes ahead may be held, from when it is sent. It is zero
// if that is hardly longer than the charge is under way: nothing would be left to grant from. If
// half of the writes take trip milliseconds, few take half as much again.
func (k *facts) life(s *seen, costs []table.Cost, trip float64, now int64) int64 {
	life := prefetch.LifeFrom(s.image, costs, k.ahead, now)
	if float64(life) <= 1.5*trip {
		return 0
	}
	return life
}

// sure is how many requests this process takes ahead for on a shard, even if its tokens are scarce.
func (d decider) sure(s *seen) float64 {
	if d.ahead == 0 || !s.imaged() || s.holding == nil {
		return 0
	}
	return s.holding.demand.Sure(d.life(s, d.want.Costs, d.trip, d.now), d.now)
}

// turns reports whether a denial by the image is an estimate: when the tokens are there, it may not
// be this process's turn, because it takes ahead.
func (d decider) turns(s *seen) bool {
	return d.ahead > 0 && s.holding != nil && (d.sure(s) > 0 || s.share(d.want).part > 0)
}

const (
	lumpLife  = 0.6 // of a life, that a busy process saves up for
	lumpTrips = 1.5 // round trips less
	lumpMost  = 40  // ms of the refill, at most: less than a mark, about which the level stays; or what comes in a trip
)

// lump is how much of the refill a busy process saves up before it asks, in milliseconds: the
// amount that its share gets in most of a life, but at most what it takes. So it asks rarely, and
// takes for many requests with one write: 16 processes that ask for 500 % of 1000 a second pay 0.075
// writes per grant, and 0.99 without it.
func (d decider) lump(s *seen) float64 {
	p, sure := s.share(d.want), d.sure(s)
	if p.part == 0 || sure == 0 {
		return 0
	}
	turn := lumpLife*float64(d.life(s, d.want.Costs, d.trip, d.now)) - lumpTrips*d.trip
	each, _ := s.costs(d.want)
	return min(p.part*max(0, turn), max(lumpMost, p.part*d.trip), each*(1+sure))
}
