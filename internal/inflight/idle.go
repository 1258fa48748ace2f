package inflight

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A busy process soon asks again for slots it has just given back. So slots stay idle for a while
// when a lease ends, and the next lease takes them over without a write. The table counts idle
// slots as used: they are renewed, and can be lost, like the slots of a lease. So the limit is
// never exceeded. Idle slots go back to the table a fixed time after they were taken from it,
// however often they were reused, so one process cannot keep them from others.
//
// Example: slots may be reused for 500 ms, and each piece of work takes 50 ms. A slot taken at 0 ms
// serves ten leases, one after the other; the last one ends at 510 ms and gives it back. If no
// lease needs the slot after 100 ms, it is idle until 500 ms, and a write of its own gives it back.

// lasts returns for how many more ms other leases may reuse the slots; zero or less means not at
// all. If the clock was set back, it returns zero.
func (h *held) lasts(now int64) int64 {
	if now < h.From {
		return 0
	}
	return h.Until - now
}

// rest makes slots idle until they are reused or given back.
func (b *Shelf) rest(h *held, now int64) {
	h.of = nil
	b.idle = append(b.idle, h)
	b.wakeFor(h, now, false)
}

// Reuse moves idle slots of a limit to a lease, at most as many as c costs, and returns the lease
// and the number of millislots. If s is nil and there are idle slots, it creates a lease for the
// bucket named by the caller. The lease must be released, whether or not it was passed to Add.
func (k *Keeper) Reuse(s *Lease, named, n decide.Name, c table.Cost, now int64) (*Lease, int64) {
	a := k.lock()
	defer k.mu.Unlock()
	b := a.Shelves.Find(n)
	if b == nil || len(b.idle) == 0 {
		return s, 0
	}
	a.look(b.idle, now)
	milli, left := int64(0), b.idle[:0]
	for _, h := range b.idle {
		need := c.Milli - milli
		whole := h.Cost.Milli <= need
		if h.over {
			continue
		}
		if h.Cost.Limit != c.Limit || h.lasts(now) <= 0 || need == 0 || h.moving && !whole { // it moves as a whole
			left = append(left, h)
			continue
		}
		if !whole {
			left = append(left, h)
			h = b.divide(h, need)
		}
		if s == nil {
			s = NewLease(named)
		}
		h.of = s
		s.all = append(s.all, h)
		milli += h.Cost.Milli
	}
	clear(b.idle[len(left):])
	b.idle = left
	return s, milli
}

// divide splits off a part of the slots.
func (b *Shelf) divide(h *held, milli int64) *held {
	part := *h
	part.Cost.Milli = milli
	h.Cost.Milli -= milli
	b.all = append(b.all, &part)
	return &part
}

// expired returns a renewal that gives back the bucket's idle slots whose time for reuse is over,
// or nil if there are none. Slots that could be reused only a little longer go back in the same
// write.
func (b *Shelf) expired(now int64) *Renewal {
	if !slices.ContainsFunc(b.idle, func(h *held) bool { return !h.over && h.lasts(now) <= 0 }) {
		return nil
	}
	ended := &Renewal{Name: b.name}
	for _, h := range b.idle {
		if h.over || 4*h.lasts(now) > h.Until-h.From {
			continue
		}
		if h.moving {
			h.over = true // the renewal gives it back
		} else if ended.add(h) {
			h.over = true
		} // otherwise it is of another epoch: the next look gives it back
	}
	if len(ended.back()) == 0 {
		return nil
	}
	return ended
}

// Close forgets a bucket. It returns the costs that give back its idle slots, one list per epoch.
// Leases lose their slots of the bucket, because nothing renews them any more.
func (k *Keeper) Close(n decide.Name, now int64) (back [][]table.Cost) {
	a := k.lock()
	defer k.mu.Unlock()
	b := a.Shelves.Find(n)
	if b == nil || b.timer == nil {
		return nil
	}
	a.look(b.idle, now)
	var all []*Renewal
	for _, h := range b.idle {
		if h.over {
			continue
		}
		if i := slices.IndexFunc(all, func(r *Renewal) bool { return r.add(h) }); i < 0 {
			r := &Renewal{}
			r.add(h)
			all = append(all, r)
		}
		h.over = true
	}
	for _, r := range all {
		back = append(back, r.back())
	}
	for _, h := range b.all {
		if !h.over {
			a.lose(h)
		}
	}
	a.forget(b)
	return back
}
