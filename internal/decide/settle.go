package decide

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What a lease has cost more or less than it took may be handed to the bucket. It rides on the next charge of
// its shard; after a while it goes alone. Until then it counts as under way, so requests are decided as if it
// were written: tokens given back may be granted in the same write. Where the caller waits for the result, the
// difference waits only for the write that is on its way.

// Difference is what a lease has cost more or less than it took of a shard, with the periods of quotas that
// it was taken in.
type Difference struct {
	Costs []table.Cost
	At    int64 // by a clock that is never set, ms: when it was handed over
	Of    any   // of the driver
	Waits bool  // its caller waits for the result
	rides bool  // it is on its way with a charge
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
	s := k.handOver(shard, d)
	mind, s.minded = !s.minded, true
	return mind
}

func (k *facts) handOver(shard int, d *Difference) *seen {
	s := k.at(shard)
	s.due = append(s.due, d)
	s.underWay.add(more(d.Costs))
	k.denied = nil
	return s
}

// Join takes a difference whose caller waits, if a write of the shard is on its way that is not late. It goes with
// the next one. Else the caller is to settle it at once, and [Bucket.Settled] follows.
func (b *Bucket) Join(shard int, d *Difference, now Now) bool {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	began := s.settling
	if c := s.call; c != nil && c.began.After(began) {
		began = c.began
	}
	if began.IsZero() || now.At.Sub(began) >= Patience(now.Late) {
		s.settling = now.At
		return false
	}
	k.handOver(shard, d)
	return true
}

// Settled ends a write that has settled differences alone, and returns those to settle next, alone again: all that
// have joined, unless a call is on its way, whose end decides.
func (b *Bucket) Settled(shard int, now Now) []*Difference {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	s.settling = time.Time{}
	return s.alone(now.At)
}

// alone begins to settle what has joined, unless that goes with a write that is on its way, or follows it.
func (s *seen) alone(at time.Time) (all []*Difference) {
	if s.call != nil || !s.settling.IsZero() {
		return nil
	}
	for _, d := range s.due {
		if d.Waits && !d.rides {
			all = append(all, d)
		}
	}
	if s.arrived(all); len(all) > 0 {
		s.settling = at
	}
	return all
}

// TakeBack takes out a difference that has joined, for its caller to settle. It reports false if the difference is
// on its way, or settled.
func (b *Bucket) TakeBack(shard int, d *Difference) bool {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	if d.rides || !slices.Contains(s.due, d) {
		return false
	}
	s.arrived([]*Difference{d})
	return true
}

// Due returns the differences to settle alone: handed over so many ms ago or earlier, and not on their way.
// More says after how many ms to ask again, zero that the shard is minded no longer.
func (b *Bucket) Due(shard int, now Now, within int64) (all []*Difference, more int64) {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	for _, d := range s.due {
		left := d.At + within - now.Mono
		if d.rides { // it may come back
			left = max(left, within, 1)
		}
		if left <= 0 {
			all = append(all, d)
		} else if more == 0 || left < more {
			more = left
		}
	}
	s.arrived(all)
	s.minded = more > 0
	return all, more
}

// arrived takes out differences that are written, or not to be written with a charge any more.
func (s *seen) arrived(all []*Difference) {
	for _, d := range all {
		s.underWay.remove(more(d.Costs))
	}
	s.due = slices.DeleteFunc(s.due, func(d *Difference) bool { return slices.Contains(all, d) })
}

// boards returns the differences that the next charge of the shard can settle, and their costs.
func (s *seen) boards(now int64) (all []*Difference, costs []table.Cost) {
	if len(s.due) == 0 || !s.imaged() {
		return nil, nil
	}
	at := s.image.State.At(now)
	for _, d := range s.due {
		if !d.rides && !slices.ContainsFunc(d.Costs, func(c table.Cost) bool { return !s.image.Rides(at, c) }) {
			all, costs = append(all, d), append(costs, d.Costs...)
		}
	}
	return all, costs
}

// rode ends the ride of differences and denials whose charge does not hold: they wait for the next one, unless
// nobody knows whether they were written.
func (k *facts) rode(c *Call, unknown bool) {
	for _, d := range c.rides {
		d.rides = false
	}
	if unknown {
		k.at(c.Shard).arrived(c.rides)
		c.lost = append(c.lost, c.rides...)
	}
	c.rides = nil
	k.restoreDenials(&c.Planned, unknown)
}

// DueAll returns all that was handed over and is not on its way, by shard, to be settled alone.
func (b *Bucket) DueAll() map[int][]*Difference {
	k := b.lock()
	defer b.mu.Unlock()
	out := map[int][]*Difference{}
	for shard, s := range k.shards {
		if all := slices.DeleteFunc(slices.Clone(s.due), func(d *Difference) bool { return d.rides }); len(all) > 0 {
			out[shard] = all
			s.arrived(all)
		}
	}
	return out
}

// more returns the costs that take.
func more(costs []table.Cost) []table.Cost {
	return slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool { return c.Milli < 0 })
}

// gone is the costs under way of a limit, less the part of settlements that the next charge gives back.
func (s *seen) gone(limit string, settles []table.Cost) int64 {
	sum := s.underWay.of(limit)
	for _, c := range settles {
		if c.Limit.Name == limit && c.Milli < 0 {
			sum = bucket.AddSat(sum, c.Milli)
		}
	}
	return sum
}
