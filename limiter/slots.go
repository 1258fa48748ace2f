package limiter

import (
	"runtime"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// hold notes the slots that a new lease has taken, besides those that it has taken over, and begins to
// renew them. It goes on for as long as anybody has the lease, or until that ends.
func (l *Limiter) hold(le *Lease, wants []decide.Want, s *slots.Lease) {
	for _, a := range le.levels() {
		s = l.slotsOf(a, le.name, wants, s)
	}
	if s == nil {
		return
	}
	le.slots = s
	runtime.AddCleanup(le, l.desks.Slots.Drop, s)
	l.desks.Slots.Add(s, l.now())
}

// slotsOf sets apart the slots that a lease has taken on one level, and adds them to s; nil
// is none. The caller has named the bucket n.
func (l *Limiter) slotsOf(a *Lease, n decide.Name, wants []decide.Want, s *slots.Lease) *slots.Lease {
	for i, it := range a.items {
		if !slices.ContainsFunc(it.Taken, func(c table.Cost) bool { return isSlots(c) && c.Milli > 0 }) {
			continue
		}
		now := l.now()
		taken := desk.Pinned(it.Taken, a.image(), now)
		a.items[i].Taken = slices.Clone(it.Taken)
		for j, c := range taken {
			if isSlots(c) {
				a.items[i].Taken[j].Milli = 0
			}
			if !isSlots(c) || c.Milli <= 0 {
				continue
			}
			if s == nil {
				s = slots.NewLease(n)
			}
			until := now + min(l.desks.Reusable(it.name, wants), c.Limit.Period)
			s.Take(slots.Part{Name: it.name, Key: it.Key, TTL: a.image().TTL, Cost: c, From: now, Until: until})
		}
	}
	return s
}

func isSlots(c table.Cost) bool { return c.Limit.Lends() }
