package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// If a process wrote to another shard with every request, it would see each of them seldom. Its
// images would be old, others would have taken much of a share since, and every second write would
// be refused. So it stays with a shard for a few writes, as long as that is half full.

// stay is for how many writes a process stays with a shard. A busy one still spreads
// what it writes over all partitions: at 200 writes a second it visits a dozen of them in
// a second.
const stay = 16

// home is the shard that a process visits.
type home struct {
	shard int
	left  int // writes until it goes on
}

// first returns the shard to try first: the one that is visited, or any. A request whose write was
// refused for other reasons than that others took the tokens, as when they changed the limits, goes on
// with that shard: its image is new, and the others' are as old as it was.
func (d decider) first() int {
	if d.count > 1 && d.home.shard < d.count {
		s, again := d.shards[d.home.shard], d.attempt.Trips > 0 && !d.attempt.Lost
		if again && s.imaged() || d.home.left > 0 && d.halfFull(s) {
			return d.home.shard
		}
	}
	return int(d.pick % uint64(d.count))
}

// halfFull reports whether a shard holds the costs, and half of its share or more, of each limit
// that is asked for. Below that the levels decide, and all shards are tried alike.
func (d decider) halfFull(s *seen) bool {
	return s.imaged() && !slices.ContainsFunc(d.want.Costs, func(c table.Cost) bool {
		return c.Milli > 0 && !c.Limit.Soft &&
			s.level(c.Limit, d.now) < max(c.Need(s.image.State), s.image.State.RateOf(c.Limit).Capacity/2)
	})
}

// visit notes that a write goes to a shard.
func (k *facts) visit(shard int) {
	if k.home.shard != shard || k.home.left == 0 {
		k.home = home{shard: shard, left: stay}
	}
	k.home.left--
}
