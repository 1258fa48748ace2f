package inflight

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A busy process asks for slots again soon after it has given some back. So slots may stay idle for
// a while: a lease has ended, and the next one takes its slots over, without a write. For the table
// they are at work all the while: they are renewed, and lost, like slots of a lease. So there are
// never more at work than the limit. They go back to the table some time after they were taken from
// it, however often they were taken over. So no process keeps them any longer while others ask.
//
// Example: slots may be taken over for 500 ms, and work takes 50 ms. Taken at 0 ms, a slot is used
// by ten leases, one after the other. The last ends at 510 ms and gives it back. If nobody asks
// from 100 ms on, it is idle until 500 ms, and given back by a write of its own.

// lasts returns for how many ms from an instant other leases may have the slots, zero or less if
// they may not. A clock that was set back leaves no time.
func (h *held) lasts(now int64) int64 {
	if now < h.From {
		return 0
	}
	return h.Until - now
}

// rest makes slots idle, until they are taken over or given back.
func (b *Shelf) rest(h *held, now int64) {
	h.of = nil
	b.idle = append(b.idle, h)
	b.wakeFor(h, now, false)
}

// Reuse gives a lease idle slots of a limit, at most as many as it costs. It returns the lease and
// the millislots. If s is nil and there are idle slots, it makes a lease, with the bucket that its
// caller has named. The lease must be released, or kept by Add and released.
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
		if h.Cost.Limit != c.Limit || h.lasts(now) <= 0 || need == 0 || h.moving && !whole { // it is moved in one piece
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

// expired returns the give-back of a bucket's idle slots that may not be used any more, nil if
// there are none. Slots that may be used for a little longer go back in the same write.
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
		} // else it is of another epoch: the next look gives it back
	}
	if len(ended.back()) == 0 {
		return nil
	}
	return ended
}

// Close forgets a bucket. It returns the costs that give back its idle slots, one list for each
// epoch. Leases lose their slots of the bucket: nobody renews them any more.
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
