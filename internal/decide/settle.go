package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What a lease has cost more or less than it took may be handed to the bucket. It rides on the next charge of
// its shard; after a while it goes alone. Until then it counts as under way, so requests are decided as if it
// were written: what is given back may be granted in that same write.

// Difference is what a lease has cost more or less than it took of a shard, with the periods of quotas that
// it was taken in.
type Difference struct {
	Costs []table.Cost
	At    int64 // by a clock that is never set, ms: when it was handed over
	Taken any   // of the driver
}

// Settlement is what became of differences.
type Settlement struct {
	Shard int
	All   []*Difference
	Image *table.Shard // with all of them; nil: nobody knows whether they were written
}

// HandOver takes a difference, and reports whether the caller is to mind the shard from now on: [Bucket.Due]
// has something to settle alone after a while.
func (b *Bucket) HandOver(shard int, d *Difference) (mind bool) {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	s.due = append(s.due, d)
	s.underWay.add(more(d.Costs))
	k.denied = nil
	mind, s.minded = !s.minded, true
	return mind
}

// Due returns what is to be settled alone: what was handed over so many ms ago or earlier. More says after
// how many ms to ask again, zero that the shard is minded no longer.
func (b *Bucket) Due(shard int, now Now, within int64) (all []*Difference, more int64) {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	for _, d := range s.due {
		if left := d.At + within - now.Mono; left <= 0 {
			all = append(all, d)
		} else if more == 0 || left < more {
			more = left
		}
	}
	s.leave(all)
	s.arrived(all)
	if more == 0 && s.riding > 0 { // it may come back
		more = max(within, 1)
	}
	s.minded = more > 0
	return all, more
}

// leave takes out differences that are about to be settled.
func (s *seen) leave(all []*Difference) {
	s.due = slices.DeleteFunc(s.due, func(d *Difference) bool { return slices.Contains(all, d) })
}

// arrived notes that differences are not under way any more.
func (s *seen) arrived(all []*Difference) {
	for _, d := range all {
		s.underWay.remove(more(d.Costs))
	}
}

// boards returns the differences that a charge of the shard can settle, and their costs.
func (s *seen) boards(now int64) (all []*Difference, costs []table.Cost) {
	for _, d := range s.due {
		if !slices.ContainsFunc(d.Costs, func(c table.Cost) bool { return !s.image.Rides(c, now) }) {
			all, costs = append(all, d), append(costs, d.Costs...)
		}
	}
	return all, costs
}

// rode ends the ride of differences whose charge does not hold: they wait for the next one, unless nobody
// knows whether they were written.
func (k *facts) rode(c *Call, unknown bool) {
	s := k.at(c.Shard)
	s.riding -= len(c.rides)
	if unknown {
		s.arrived(c.rides)
		c.lost = append(c.lost, c.rides...)
	} else {
		s.due = append(c.rides, s.due...)
	}
	c.rides = nil
}

// DueAll returns all that was handed over, by shard, to be settled alone.
func (b *Bucket) DueAll() map[int][]*Difference {
	k := b.lock()
	defer b.mu.Unlock()
	out := map[int][]*Difference{}
	for shard, s := range k.shards {
		if len(s.due) > 0 {
			out[shard] = s.due
			s.arrived(s.due)
			s.due = nil
		}
	}
	return out
}

// more returns the costs that take.
func more(costs []table.Cost) []table.Cost {
	return slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool { return c.Milli < 0 })
}

// gone is what is under way of a limit, less what the next charge gives back.
func (s *seen) gone(limit string, now int64) int64 {
	sum := s.underWay.of(limit)
	if len(s.due) == 0 || !s.imaged() {
		return sum
	}
	_, costs := s.boards(now)
	for _, c := range costs {
		if c.Limit.Name == limit && c.Milli < 0 {
			sum = bucket.AddSat(sum, c.Milli)
		}
	}
	return sum
}
