package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/ahead"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// life is how long what a charge takes ahead may be held, from when it is sent. It is zero where
// that is hardly longer than the charge is under way: nothing would be left to grant from. Writes
// of which half take trip milliseconds seldom take half as much again.
func (k *facts) life(s *seen, costs []table.Cost, trip float64, now int64) int64 {
	life := ahead.LifeFrom(s.image, costs, k.ahead, now)
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

// waits reports whether a busy process has had its turn on a saturated bucket.
func (d decider) waits(s *seen, w Want) bool {
	d.want = w
	return d.busy(s) && d.free(s) > d.now
}

// free is from when a busy process may write: of a saturated bucket in its next turn, but now
// if there is plenty again.
func (d decider) free(s *seen) int64 {
	costs := d.want.Costs
	life := ahead.Life(costs, d.ahead)
	free := s.holding.pace.Free(life, d.now)
	if free > d.now && s.holding.demand.Plenty(costs, s.leaves(costs, d.trip, d.now), life) {
		return d.now
	}
	return free
}

// paced denies a request that a busy process would chase tokens for: of a saturated bucket it
// asks for more than one request needs, and not more often than pays. A request joins a
// charge that is on its way. What the bucket denies a process that takes ahead is an estimate: when the
// tokens are there it may not be its turn.
func (d decider) paced(c Choice) Choice {
	s := d.shards[c.Shard]
	if c.Do != Deny && c.Do != Take || d.attempt.Waits || d.ahead <= 0 || !s.imaged() || s.holding == nil {
		return c
	}
	busy := d.busy(s)
	if c.Do == Deny {
		if busy {
			s.holding.pace.Short(d.now)
		}
		then := d
		then.now = c.at
		c.guess = c.guess || busy || then.free(s) > c.at // it may be busy then
		return c
	}
	free := d.free(s)
	if !busy || free <= d.now || s.holding.Asking() {
		return c
	}
	return Choice{Do: Deny, Shard: c.Shard, at: free, guess: true}
}
