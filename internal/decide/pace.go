package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/prefetch"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// life is how long what a charge takes ahead may be held, from when it is sent. It is zero where
// that is hardly longer than the charge is under way: nothing would be left to grant from. Writes
// of which half take trip milliseconds seldom take half as much again.
func (k *facts) life(s *seen, costs []table.Cost, trip float64, now int64) int64 {
	life := prefetch.LifeFrom(s.image, costs, k.ahead, now)
	if float64(life) <= 1.5*trip {
		return 0
	}
	return life
}

// sure is for how many requests this process takes ahead of a shard, even if its tokens are scarce.
func (d decider) sure(s *seen) float64 {
	if d.ahead == 0 || !s.imaged() || s.holding == nil {
		return 0
	}
	return s.holding.demand.Sure(d.life(s, d.want.Costs, d.trip, d.now), d.now)
}

// turns reports whether a denial by the image is an estimate: when the tokens are there, it may not be the
// turn of a process that takes ahead.
func (d decider) turns(s *seen) bool {
	return d.ahead > 0 && s.holding != nil && (d.sure(s) > 0 || s.share(d.want).part > 0)
}

const (
	lumpLife  = 0.6 // of a life, that a busy process saves up for
	lumpTrips = 1.5 // round trips less
	lumpMost  = 40  // ms of the refill, at most: less than a mark, about which the level stays; or what comes in a trip
)

// lump is how much of the refill a busy process saves up before it asks, in milliseconds of it: what its
// share gets in most of a life, but no more than it takes. So it asks seldom, and takes for many requests with
// one write.
func (d decider) lump(s *seen) float64 {
	p, sure := s.share(d.want), d.sure(s)
	if p.part == 0 || sure == 0 {
		return 0
	}
	turn := lumpLife*float64(d.life(s, d.want.Costs, d.trip, d.now)) - lumpTrips*d.trip
	each, _ := s.costs(d.want)
	return min(p.part*max(0, turn), max(lumpMost, p.part*d.trip), each*(1+sure))
}
