package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// decider decides one attempt from the facts. It performs no I/O; the time and the random number
// that picks the shard are arguments.
type decider struct {
	*facts
	want    Want
	now     int64
	attempt *Attempt
	pick    uint64
	looks   bool // the write is the look, and was noted as one
	members int  // of the group that wants this; zero: one
}

// nearest returns the shard to use for pick k: k itself, or, if that does not exist, the shard that
// it splits from. Example: of four shards, shard 3 was never seen. It splits from shard 1. While
// shard 1 counts two shards, it still has the share of both and is used. Once it counts four, shard
// 3 exists and is asked.
func (d decider) nearest(k int) int {
	for k > 0 {
		s := d.shards[k]
		if s.imaged() {
			return k
		}
		gone := s != nil && s.absent && !d.past(s.at, absentFor)
		parent := d.shards[bucket.SplitParent(k)]
		if !gone && (!parent.imaged() || parent.image.State.Shards >= bucket.CountWith(k)) {
			return k
		}
		k = bucket.SplitParent(k)
	}
	return 0
}

// fits reports whether a shard, full, covers the costs, at some time by their schedules.
func (d decider) fits(shard int) bool {
	share := bucket.State{Shard: shard, Shards: d.count}
	return !slices.ContainsFunc(d.want.Costs, func(c table.Cost) bool {
		c = c.Largest()
		return c.Need(share) > share.CapacityOf(c.Limit) && !c.Limit.Soft
	})
}

// blind reports whether there is no image of any shard.
func (d decider) blind() bool {
	for _, s := range d.shards {
		if s.imaged() {
			return false
		}
	}
	return true
}

// absentFor is how long, in ms, a missing shard is not asked for again.
const absentFor = 10_000

// again reports whether something last done at an instant may be done again: because an image from
// then may no longer deny, or the clock has been set back since.
func (d decider) again(last int64) bool { return d.past(last, d.DenyFor) }

// past reports whether ms have passed since an instant, or the clock has been set back since.
func (d decider) past(last, ms int64) bool { return d.now-last >= ms || d.now < last }

// seenAt returns when an image was seen. An image from a later time than now counts as the
// oldest: the clock has been set back.
func (d decider) seenAt(s *seen) int64 {
	if s.at > d.now {
		return 0
	}
	return s.at
}

// outdated reports whether some image is from before tokens were put into the bucket (see raised),
// so that all shards are to be read. That happens at most as often as looks are sent, and only if
// one call can read them all.
func (d decider) outdated() bool {
	if d.count == 1 || d.count > item.MaxReadKeys || d.attempt.Spread || !d.again(d.readAt) {
		return false
	}
	for n, s := range d.shards {
		if n < d.count && s.imaged() && s.at < d.raisedAt {
			return true
		}
	}
	return false
}

// unadopted returns the shard in which the denying limits must first be brought in force. A denial
// by limits that are not stored might never end: the bucket refills by the old ones, up to the old
// capacity. Example: 10 a day are stored and 10 a second are in force. Denied for 100 ms, the
// caller would come back to a bucket that needs hours. A cost that no shard can hold is taken from
// several, and they refill by the limits that they store.
func (d decider) unadopted(denial Choice) (shard int, ok bool) {
	if denial.Do == Deny {
		return denial.Shard, d.adopts(d.shards[denial.Shard])
	}
	for k := range d.count {
		if d.adopts(d.shards[k]) {
			return k, true
		}
	}
	return 0, false
}

func (d decider) adopts(s *seen) bool {
	return s.imaged() && !d.want.stored(s.image.State) && !d.attempt.Adopted && d.again(d.adoptedAt)
}

// need remembers the largest costs, so that the bucket is not split so far that no shard could hold
// them. Any shard grants shares of soft limits.
func (d decider) need() {
	for _, c := range d.want.Costs {
		if share := c.Share(); share > d.largest[c.Limit.Name] && !c.Limit.Soft {
			if d.facts.largest == nil {
				d.facts.largest = make(map[string]int64, len(d.want.Costs))
			}
			d.facts.largest[c.Limit.Name] = share
		}
	}
}

// If a process wrote to another shard with every request, it would rarely see each of them. Its
// images would be old, others would have taken much of a share since, and every second write would
// be refused. So it stays with a shard for a few writes, while that is half full. On 8 shards that
// saves 26 % of the writes at half of the rate, and 13 % at nine tenths.

// stay is how many writes a process sends to a shard in a row. A busy process still spreads its
// writes over all partitions: at 200 writes a second it visits a dozen of them in a second.
const stay = 16

// home is the shard that a process visits.
type home struct {
	shard int
	left  int // writes until it goes on
}

// first returns the shard to try first: the visited one, or any. A request whose write was refused
// for a reason other than missing tokens, such as changed limits, stays with that shard: its image
// is new, and the others' are as old as before.
func (d decider) first() int {
	if d.count > 1 && d.home.shard < d.count {
		s, again := d.shards[d.home.shard], d.attempt.Trips > 0 && !d.attempt.Lost
		if again && s.imaged() || d.home.left > 0 && d.halfFull(s) {
			return d.home.shard
		}
	}
	return int(d.pick % uint64(d.count))
}

// halfFull reports whether a shard covers the costs, and holds at least half of its share, of each
// requested limit. Below that the levels decide, and all shards are tried alike: at nine tenths of
// the rate that saves 15 % of the writes.
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
