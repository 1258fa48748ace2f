// Package inflight keeps track of the in-flight slots that leases of this process hold: when to
// renew them, and which leases have lost theirs. It makes no calls: a [Keeper] returns the due
// renewals, and its caller reports their outcomes.
package inflight

import (
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The life of a slot:
//
//	held -> given back    the lease ended, and its settlement returns the slots
//	held -> idle          the lease ended, and another lease may reuse the slots for a while
//	        idle -> held  another lease reused them
//	        idle -> given back
//	held -> moving -> held, an epoch later
//	        moving -> given back by the renewal, because the lease ended meanwhile
//	held -> lost          by the clock, or because a renewal was refused
//	held -> dropped       the caller forgot the lease: not renewed
//
// If a move gets no answer, its slots are not given back, because their epoch is unknown.

// Lease is the slots of one lease, on all its levels. Call Take before Add; after Add, the lease
// belongs to the keeper.
type Lease struct {
	name     decide.Name // the bucket named by the caller
	lost     chan struct{}
	all      []*held
	reported bool // lost is closed; guarded by the keeper, like every field here
	dropped  bool // the caller forgot the lease
}

// NewLease returns a lease without slots. The name is the bucket named by the caller.
func NewLease(n decide.Name) *Lease { return &Lease{name: n, lost: make(chan struct{})} }

// Take adds slots of one limit.
func (s *Lease) Take(p Part) { s.all = append(s.all, &held{Part: p, of: s}) }

// Lost returns a channel that is closed when the lease loses a slot.
func (s *Lease) Lost() <-chan struct{} { return s.lost }

// Part is the slots that a lease holds of one limit of a bucket.
type Part struct {
	Name decide.Name // of the bucket
	Key  item.Key    // of its item
	TTL  int64       // of the item when the slots were taken
	Cost table.Cost  // the slots, and the end of the epoch that counts them
	// If the lease ends between these two instants (epoch ms), another lease may reuse the slots
	// until the second. Both zero: the slots are given back at once.
	From, Until int64
}

// held is the slots of one limit that one lease holds, or that are idle.
type held struct {
	Part
	of     *Lease // nil: it is idle
	in     *Shelf // nil: not yet added to the keeper
	moving bool   // a renewal of it is under way
	over   bool   // given back, lost or dropped, or in an unknown state
}

// Keeper holds the slots of all leases of one limiter, on one shelf per bucket. It is ready once
// all exported fields are set, and safe for concurrent use. Instants are in epoch milliseconds.
type Keeper struct {
	Wake    func(decide.Name) // called on its own goroutine when Next is due for a bucket
	Random  func() uint64
	Shelves decide.Places[Shelf] // called with the keeper's lock held

	mu   sync.Mutex
	news []decide.Name // the buckets of leases that lost slots, to be reported to observers
}

// locked is a keeper whose lock is held. Only its methods use news and shelves.
type locked struct{ *Keeper }

// lock locks the keeper. The caller unlocks mu.
func (k *Keeper) lock() locked {
	k.mu.Lock()
	return locked{k}
}

// Shelf is the slots of one bucket. The zero value is empty. The keeper pins it unless it is empty.
type Shelf struct {
	name    decide.Name
	all     []*held
	idle    []*held // slots without a lease, possibly some that are over
	renews  bool    // a renewal is under way
	retryAt int64
	part    int64       // the random point of the epoch at which it renews, in units of 1/65536
	timer   *time.Timer // nil: the shelf is empty
	wakes   time.Time   // when the timer fires, or earlier
	over    int         // a lower bound of the slots that ended since the last cleanup
}

// Add starts keeping the slots of a lease.
func (k *Keeper) Add(s *Lease, now int64) {
	a := k.lock()
	defer k.mu.Unlock()
	for _, h := range s.all {
		if h.in == nil {
			h.in = a.shelf(h.Name)
			h.in.all = append(h.in.all, h)
			h.in.wakeFor(h, now, len(h.in.all) == 1)
		}
	}
}

// shelf returns the shelf of a bucket, pinning a new one if the bucket has no slots yet.
func (a locked) shelf(n decide.Name) *Shelf {
	if b := a.Shelves.Find(n); b != nil && b.timer != nil {
		return b
	}
	b := a.Shelves.Pin(n)
	*b = Shelf{name: n, part: int64(a.Random() & 0xffff)}
	b.timer = time.AfterFunc(time.Hour, func() { a.Wake(n) })
	return b
}

// wakeFor makes sure that the next look at the bucket is not too late for h.
func (b *Shelf) wakeFor(h *held, now int64, first bool) {
	if in := b.within(h, now); first || time.Now().Add(in).Before(b.wakes) {
		b.wake(in)
	}
}

// wakeIn schedules the next look at the bucket.
func (b *Shelf) wakeIn(now int64) {
	in := time.Duration(bucket.Never)
	for _, h := range b.all {
		in = min(in, b.within(h, now))
	}
	b.wake(in)
}

func (b *Shelf) wake(in time.Duration) {
	b.wakes = time.Now().Add(in)
	b.timer.Reset(in)
}

// within returns the time from now until h needs a look.
func (b *Shelf) within(h *held, now int64) time.Duration {
	at := now + h.Cost.Limit.Period/6
	if !h.over {
		at = min(at, h.Cost.Limit.LostAt(h.Cost.End))
	}
	if !h.moving {
		at = min(at, max(b.due(h), b.retryAt))
	}
	if h.of == nil && !h.over {
		at = min(at, h.Until)
	}
	return time.Duration(max(at-now, 1)) * time.Millisecond
}

// due returns when slots are renewed: between a sixth and a third of the epoch after their own.
func (b *Shelf) due(h *held) int64 {
	p := h.Cost.Limit.Period
	return h.Cost.Limit.MovesAt(h.Cost.End) + p/6 + p/6*b.part>>16
}

// forget removes slots that are over. If no slots are left, it unpins the shelf and returns true.
func (a locked) forget(b *Shelf) (none bool) {
	b.all = slices.DeleteFunc(b.all, func(h *held) bool { return h.over && !h.moving })
	b.idle = slices.DeleteFunc(b.idle, func(h *held) bool { return h.over })
	b.over = 0
	if len(b.all) > 0 || b.renews {
		return false
	}
	b.timer.Stop()
	n := b.name
	*b = Shelf{}
	a.Shelves.Unpin(n)
	return true
}

// lose marks the slots as over and closes the Lost channel of their lease.
func (a locked) lose(h *held) {
	h.over = true
	if h.of != nil && !h.of.reported {
		h.of.reported = true
		close(h.of.lost)
		a.news = append(a.news, h.of.name)
	}
}

// look finds lost slots, and closes the Lost channels of their leases. Slots are lost when others
// may take them, or when their lease was dropped.
func (a locked) look(all []*held, now int64) {
	for _, h := range all {
		if !h.over && (h.of != nil && h.of.dropped || now >= h.Cost.Limit.LostAt(h.Cost.End)) {
			a.lose(h)
		}
	}
}

// Look closes the Lost channel of a lease that has lost slots, because time has passed or the lease
// was dropped.
func (k *Keeper) Look(s *Lease, now int64) {
	a := k.lock()
	defer k.mu.Unlock()
	a.look(s.all, now)
}

// News returns the buckets of leases that have lost slots since the last call, one per lease.
func (k *Keeper) News() []decide.Name {
	a := k.lock()
	defer k.mu.Unlock()
	news := a.news
	a.news = nil
	return news
}

// Release ends a lease. It returns the costs that give its slots back, by item, and the buckets
// where its slots are now idle, for other leases to reuse. Slots that a renewal is moving are
// returned by [Keeper.Moved] instead. Calling it again returns nothing.
func (k *Keeper) Release(s *Lease, now int64) (out map[item.Key][]table.Cost, idle []decide.Name) {
	a := k.lock()
	defer k.mu.Unlock()
	a.look(s.all, now)
	back := map[item.Key]*Renewal{}
	for _, h := range s.all {
		if h.over || h.of != s {
			continue
		}
		if back[h.Key] == nil {
			back[h.Key] = &Renewal{}
		}
		b := h.in
		switch {
		case b != nil && h.lasts(now) > 0:
			b.rest(h, now)
			idle = append(idle, h.Name)
		case b != nil && !h.moving && !back[h.Key].add(h):
			b.rest(h, now) // of another epoch than the others: the next look gives it back
		default:
			h.over = true // if it is moving, the renewal gives it back
		}
	}
	for _, h := range s.all {
		b := h.in
		if b == nil || b.timer == nil || !h.over {
			continue
		}
		if b.over++; 2*b.over >= len(b.all) { // keeps the cost of cleanup proportional to the number of leases
			a.forget(b)
		}
	}
	for key, r := range back {
		if costs := r.back(); len(costs) > 0 {
			if out == nil {
				out = make(map[item.Key][]table.Cost, len(back))
			}
			out[key] = costs
		}
	}
	return out, idle
}

// Drop stops the renewal of a forgotten lease: its slots become free when their epochs are over. It
// only sets a flag, because the garbage collector may call it; the next look at the bucket closes
// Lost.
func (k *Keeper) Drop(s *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.dropped = true
}
