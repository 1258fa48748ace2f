package limiter

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A keeper has all slots that leases of this process hold, by bucket. It renews them
// (renewal.go) and tells leases that have lost theirs. A slot goes one of these ways:
//
//	held -> given back    the lease has ended, and its settling gives them back
//	held -> moving -> held, an epoch later
//	        moving -> given back by the renewal, as the lease has ended meanwhile
//	held -> lost          by the clock, or because a renewal was refused
//	held -> dropped       nobody has the lease any more: not renewed
//
// What was moved without an answer is not given back: nobody knows from which epoch.

// slots is what one lease holds, on all its levels.
type slots struct {
	name    known.Name    // the bucket that its caller has named
	lost    chan struct{} // closed once one of them is lost
	all     []*held
	told    bool // lost is closed; guarded by the keeper, as all of this
	dropped bool // nobody has the lease any more
}

// held is what one lease holds of one limit.
type held struct {
	of     *slots
	item   leaseItem
	ttl    int64      // of the item when it was taken
	cost   table.Cost // what was taken, and when the epoch ends that it counts in
	moving bool       // a renewal of it is under way
	over   bool       // it is given back, lost or dropped, or nobody knows
}

// keeper is that of one limiter. The zero value holds nothing. It is safe for concurrent use.
type keeper struct {
	mu   sync.Mutex
	by   map[known.Name]*kept
	news []known.Name // the buckets of leases that have lost slots, for observers
}

// kept is what is held of one bucket.
type kept struct {
	all     []*held
	renews  bool // a renewal is under way
	retryAt int64
	part    int64 // when in an epoch it renews, at random: a share of 1 << 16
	timer   *time.Timer
	wakes   time.Time // when the timer goes off, or earlier
	over    int       // how many leases have ended since all was cleaned; at least
}

// hold notes the slots that a new lease has taken, and begins to renew them. It goes on for
// as long as anybody has the lease, or until that ends.
func (l *Limiter) hold(le *Lease) {
	s := l.slotsOf(le, nil)
	for _, a := range le.above {
		s = l.slotsOf(a, s)
	}
	if s == nil {
		return
	}
	s.name, le.slots = le.name, s
	runtime.AddCleanup(le, l.keeper.drop, s)
	l.keeper.add(l, s)
}

// slotsOf sets apart the slots that a lease has taken on one level, and adds them to s; nil
// is none.
func (l *Limiter) slotsOf(a *Lease, s *slots) *slots {
	for i, it := range a.items {
		if !slices.ContainsFunc(it.taken, isSlots) {
			continue
		}
		taken := slices.Clone(it.taken)
		a.items[i].taken = slices.DeleteFunc(slices.Clone(taken), isSlots)
		l.pin(taken, a.image.State)
		it.taken = nil // it may be part of the lease
		for _, c := range taken {
			if !isSlots(c) || c.Milli <= 0 {
				continue
			}
			if s == nil {
				s = &slots{lost: make(chan struct{})}
			}
			s.all = append(s.all, &held{of: s, item: it, ttl: a.image.TTL, cost: c})
		}
	}
	return s
}

// add keeps the slots of a lease.
func (k *keeper) add(l *Limiter, s *slots) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = make(map[known.Name]*kept)
	}
	now := l.now()
	for _, h := range s.all {
		b := k.by[h.item.name]
		if b == nil {
			n := h.item.name
			b = &kept{part: int64(store.Random() & 0xffff)}
			b.timer = time.AfterFunc(time.Hour, func() { l.keepUp(n) })
			k.by[n] = b
		}
		b.all = append(b.all, h)
		if len(b.all) == 1 || time.Now().Add(b.within(h, now)).Before(b.wakes) {
			b.wake(b.within(h, now))
		}
	}
}

// wakeIn sets when the bucket is looked at next; the lock is held.
func (b *kept) wakeIn(now int64) {
	in := time.Duration(bucket.Never)
	for _, h := range b.all {
		in = min(in, b.within(h, now))
	}
	b.wake(in)
}

func (b *kept) wake(in time.Duration) {
	b.wakes = time.Now().Add(in)
	b.timer.Reset(in)
}

// within is how long after an instant slots are looked at next.
func (b *kept) within(h *held, now int64) time.Duration {
	at := now + h.cost.Limit.Period/6
	if !h.over {
		at = min(at, h.cost.Limit.LostAt(h.cost.End))
	}
	if !h.moving {
		at = min(at, max(b.due(h), b.retryAt))
	}
	return time.Duration(max(at-now, 1)) * time.Millisecond
}

// due is when slots are renewed: between a sixth and a third into the epoch after theirs.
func (b *kept) due(h *held) int64 {
	p := h.cost.Limit.Period
	return h.cost.Limit.MovesAt(h.cost.End) + p/6 + p/6*b.part>>16
}

// forget drops what is over. It reports whether the bucket holds nothing any more, and
// forgets it then; the lock is held.
func (k *keeper) forget(n known.Name, b *kept) (none bool) {
	b.all = slices.DeleteFunc(b.all, func(h *held) bool { return h.over && !h.moving })
	b.over = 0
	if len(b.all) > 0 || b.renews {
		return false
	}
	b.timer.Stop()
	delete(k.by, n)
	return true
}

// lose tells a lease that it has lost its slots; the lock is held.
func (k *keeper) lose(h *held) {
	h.over = true
	if !h.of.told {
		h.of.told = true
		close(h.of.lost)
		k.news = append(k.news, h.of.name)
	}
}

// look tells leases at an instant if they have lost slots: those that may be taken by others
// from then on, or that nobody gives back; the lock is held.
func (k *keeper) look(all []*held, now int64) {
	for _, h := range all {
		if !h.over && (h.of.dropped || now >= h.cost.Limit.LostAt(h.cost.End)) {
			k.lose(h)
		}
	}
}

// lookAt is look for one lease.
func (l *Limiter) lookAt(s *slots) {
	l.keeper.mu.Lock()
	l.keeper.look(s.all, l.now())
	l.keeper.mu.Unlock()
	l.tellLost()
}

// tellLost tells observers of the slots that were lost.
func (l *Limiter) tellLost() {
	l.keeper.mu.Lock()
	news := l.keeper.news
	l.keeper.news = nil
	l.keeper.mu.Unlock()
	for _, n := range news {
		l.tell(context.Background(), Event{Kind: EventLost, Entity: n.Entity, Resource: n.Resource})
	}
}

// release ends what a lease holds, and returns by item what gives it back. What a renewal
// moves just now, that gives back when it has its answer. Another call returns nothing, as
// one for no slots does.
func (l *Limiter) release(s *slots) map[item.Key][]table.Cost {
	if s == nil {
		return nil
	}
	defer l.tellLost()
	return l.keeper.release(s, l.now())
}

func (k *keeper) release(s *slots, now int64) map[item.Key][]table.Cost {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look(s.all, now)
	var out map[item.Key][]table.Cost
	for _, h := range s.all {
		if h.over {
			continue
		}
		if h.over = true; h.moving {
			continue
		}
		if out == nil {
			out = make(map[item.Key][]table.Cost)
		}
		out[h.item.key] = append(out[h.item.key], negative([]table.Cost{h.cost})...)
	}
	for _, h := range s.all {
		b := k.by[h.item.name]
		if b == nil {
			continue
		}
		if b.over++; 2*b.over >= len(b.all) { // so all that ends costs no more than what began
			k.forget(h.item.name, b)
		}
	}
	return out
}

// drop ends the renewing of slots that nobody can give back any more: they are free when the
// epochs are over. It runs on a goroutine of the collector, so who still waits for [Lease.Lost]
// is told by the next look at the bucket.
func (k *keeper) drop(s *slots) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.dropped = true
}
