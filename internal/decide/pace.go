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

// busy reports whether this process takes ahead of a shard.
func (d decider) busy(s *seen) bool {
	return d.ahead > 0 && s.imaged() && s.holding != nil &&
		s.holding.demand.Busy(d.life(s, d.want.Costs, d.trip, d.now), d.now)
}

// turns reports whether a denial by the image is an estimate: when the tokens are there, it may not be the
// turn of a process that takes ahead.
func (d decider) turns(s *seen) bool {
	return d.ahead > 0 && s.holding != nil && (d.busy(s) || s.share(d.want).part > 0)
}

const (
	lumpLife  = 0.6 // of a life, that a busy process saves up for
	lumpTrips = 1.5 // round trips less
	lumpMost  = 40  // ms of the refill, at most: less than a mark, about which the level stays
)

// lump is how much of the refill a busy process saves up before it asks, in milliseconds of it: what its
// share gets in most of a life. So it asks seldom, and takes for many requests with one write.
func (d decider) lump(s *seen) float64 {
	p := s.share(d.want)
	if p.part == 0 || !d.busy(s) {
		return 0
	}
	turn := lumpLife*float64(d.life(s, d.want.Costs, d.trip, d.now)) - lumpTrips*d.trip
	return min(p.part*max(0, turn), lumpMost)
}
