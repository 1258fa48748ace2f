package decide

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The difference between a lease's costs and the tokens it took of a shard is handed to the bucket.
// It goes with the next charge of the shard, or alone: once it is due, and no write of the shard is
// under way. Until then it counts as under way, so requests are decided as if it were written:
// tokens given back may be granted in the same write.

// HandOver takes a difference, and returns the dues, like Due.
func (b *Bucket) HandOver(shard int, d *Difference, now Now) Dues {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	s.due = append(s.due, d)
	s.underWay.add(more(d.Costs))
	k.denied = nil
	return k.dues(shard, now)
}

// Due returns the differences that are due. ended reports that a write which settled differences
// alone is over.
func (b *Bucket) Due(shard int, ended bool, now Now) Dues {
	k := b.lock()
	defer b.mu.Unlock()
	if ended {
		k.at(shard).settling = time.Time{}
	}
	return k.dues(shard, now)
}

// dues begins to settle the differences that are due. Each waits for the write of the shard that is
// under way at that time, until that write ends or is late: it may go with the next one. A
// difference that goes with a charge is not due either: that charge decides.
func (k *facts) dues(shard int, now Now) Dues {
	s, out := k.at(shard), Dues{Shard: shard}
	if len(s.due) == 0 {
		return out
	}
	began := s.settling
	if s.call != nil && s.call.began.After(began) {
		began = s.call.began
	}
	free := began.Add(Patience(now.Late))
	var next time.Time
	for _, d := range s.due {
		at := d.At
		if !at.After(now.At) && free.After(now.At) {
			if d.free.IsZero() {
				d.free = free
			}
			at = d.free
		}
		switch {
		case at.After(now.At):
			if next.IsZero() || at.Before(next) {
				next = at
			}
		case !d.rides:
			out.All = append(out.All, d)
		}
	}
	if s.arrived(out.All); len(out.All) > 0 {
		s.settling = now.At
	}
	if !s.asks.After(now.At) {
		s.asks = time.Time{}
	}
	if !next.IsZero() && (s.asks.IsZero() || next.Before(s.asks)) {
		s.asks, out.Again = next, next.Sub(now.At)
	}
	return out
}

// TakeBack removes a difference, and reports whether it was neither under way nor settled.
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

// arrived removes differences that are written, or that no charge is to write any more.
func (s *seen) arrived(all []*Difference) {
	for _, d := range all {
		s.underWay.remove(more(d.Costs))
	}
	s.due = slices.DeleteFunc(s.due, func(d *Difference) bool { return slices.Contains(all, d) })
}

// rode handles the differences and denials of a charge that does not hold: they wait for the next
// one, unless it is unknown whether they were written.
func (k *facts) rode(c *Call, unknown bool) {
	for _, d := range c.rides {
		d.rides = false
	}
	if unknown {
		k.at(c.Shard).arrived(c.rides)
		c.lost = append(c.lost, c.rides...)
	}
	c.rides = nil
	if n := c.denials.n; n > 0 && !unknown { // after an unknown outcome they may be counted already
		k.denials.n, k.denials.since = k.denials.n+n, c.denials.since
	}
	c.denials = denials{}
}

// DueAll returns everything that was handed over and is not under way, to be settled alone.
func (b *Bucket) DueAll() (out []Dues) {
	k := b.lock()
	defer b.mu.Unlock()
	for shard, s := range k.shards {
		if all := slices.DeleteFunc(slices.Clone(s.due), func(d *Difference) bool { return d.rides }); len(all) > 0 {
			out = append(out, Dues{Shard: shard, All: all})
			s.arrived(all)
		}
	}
	return out
}

// more returns the costs that take.
func more(costs []table.Cost) []table.Cost {
	return slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool { return c.Milli < 0 })
}
