// Package inflight has the slots of in-flight limits that leases of this process hold: when they are
// renewed, and which leases have lost theirs. It makes no calls: a [Keeper] returns the due
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

// A slot takes one of these ways:
//
//	held -> given back    the lease has ended, and its settling gives them back
//	held -> idle          the lease has ended, and another may have them for a while
//	        idle -> held  it has
//	        idle -> given back
//	held -> moving -> held, an epoch later
//	        moving -> given back by the renewal, as the lease has ended meanwhile
//	held -> lost          by the clock, or because a renewal was refused
//	held -> dropped       the caller forgot the lease: not renewed
//
// Slots of a move without an answer are not given back: their epoch is not known.

// Lease has the slots of one lease, on all its levels. Take fills it before it is kept; then it
// belongs to the keeper.
type Lease struct {
	name     decide.Name // the bucket that its caller has named
	lost     chan struct{}
	all      []*held
	reported bool // lost is closed; guarded by the keeper, as all of this
	dropped  bool // the caller forgot the lease
}

// NewLease returns a lease without slots. The name is the bucket that its caller has named.
func NewLease(n decide.Name) *Lease { return &Lease{name: n, lost: make(chan struct{})} }

// Take adds slots of one limit.
func (s *Lease) Take(p Part) { s.all = append(s.all, &held{Part: p, of: s}) }

// Lost returns a channel that is closed once one of the slots is lost.
func (s *Lease) Lost() <-chan struct{} { return s.lost }

// Part is the slots of a lease of one limit of a bucket.
type Part struct {
	Name decide.Name // of the bucket
	Key  item.Key    // of its item
	TTL  int64       // of the item when it was taken
	Cost table.Cost  // the slots, and the end of the epoch that counts them
	// When the lease has ended, another one may have the slots, from the first of these instants to
	// the second, epoch ms. Both zero: they are given back at once.
	From, Until int64
}

// held is the slots of one limit in the hands of one lease.
type held struct {
	Part
	of     *Lease // nil: it is idle
	in     *Shelf // nil: the keeper does not have it yet
	moving bool   // a renewal of it is under way
	over   bool   // it is given back, lost or dropped, or its state is not known
}

// Keeper has all slots that leases of one limiter hold, on the shelves of the buckets. It is ready
// once all fields are set, and safe for concurrent use. Instants are in epoch milliseconds.
type Keeper struct {
	Wake    func(decide.Name) // is called on a goroutine of its own when a bucket is to be looked at: by Next
	Random  func() uint64
	Shelves Shelves

	mu   sync.Mutex
	news []decide.Name // the buckets of leases that have lost slots, for observers
}

// Shelves are the shelves of all buckets. The keeper calls it with its lock held.
type Shelves interface {
	// Find returns the shelf of a bucket, nil if it has none.
	Find(decide.Name) *Shelf
	// Pin returns the shelf of a bucket, a new one if it has none. The bucket keeps it until Unpin.
	Pin(decide.Name) *Shelf
	Unpin(decide.Name)
}

// locked is a keeper with its lock held. Only through it are news and shelves reached.
type locked struct{ *Keeper }

// lock locks the keeper, until the caller unlocks mu.
func (k *Keeper) lock() locked {
	k.mu.Lock()
	return locked{k}
}

// Shelf has the slots of one bucket. The zero value is empty. The keeper pins it while it is not empty.
type Shelf struct {
	name    decide.Name
	all     []*held
	idle    []*held // the slots that no lease has, and perhaps some that are over
	renews  bool    // a renewal is under way
	retryAt int64
	part    int64       // when in an epoch it renews, at random: a share of 1 << 16
	timer   *time.Timer // nil: it is empty
	wakes   time.Time   // when the timer goes off, or earlier
	over    int         // at least how many leases have ended since the last cleaning
}

// Add keeps the slots of a lease.
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

// shelf returns the shelf of a bucket that will have slots from now on.
func (a locked) shelf(n decide.Name) *Shelf {
	if b := a.Shelves.Find(n); b != nil && b.timer != nil {
		return b
	}
	b := a.Shelves.Pin(n)
	*b = Shelf{name: n, part: int64(a.Random() & 0xffff)}
	b.timer = time.AfterFunc(time.Hour, func() { a.Wake(n) })
	return b
}

// wakeFor makes sure that the bucket is looked at in time for some slots.
func (b *Shelf) wakeFor(h *held, now int64, first bool) {
	if in := b.within(h, now); first || time.Now().Add(in).Before(b.wakes) {
		b.wake(in)
	}
}

// wakeIn sets when the bucket is looked at next.
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

// within is how long after an instant slots are looked at next.
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

// due is when slots are renewed: between a sixth and a third into the epoch after theirs.
func (b *Shelf) due(h *held) int64 {
	p := h.Cost.Limit.Period
	return h.Cost.Limit.MovesAt(h.Cost.End) + p/6 + p/6*b.part>>16
}

// forget removes slots that are over. It reports whether the bucket has none left, and unpins its
// shelf then.
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

// lose closes the lease's Lost channel.
func (a locked) lose(h *held) {
	h.over = true
	if h.of != nil && !h.of.reported {
		h.of.reported = true
		close(h.of.lost)
		a.news = append(a.news, h.of.name)
	}
}

// look marks lost slots and closes their leases' Lost channels: slots that others may take from now
// on, and slots of dropped leases.
func (a locked) look(all []*held, now int64) {
	for _, h := range all {
		if !h.over && (h.of != nil && h.of.dropped || now >= h.Cost.Limit.LostAt(h.Cost.End)) {
			a.lose(h)
		}
	}
}

// Look closes the Lost channel of a lease that has lost slots: by the clock, or because it was
// dropped.
func (k *Keeper) Look(s *Lease, now int64) {
	a := k.lock()
	defer k.mu.Unlock()
	a.look(s.all, now)
}

// News returns the buckets named by leases that have lost slots, each once.
func (k *Keeper) News() []decide.Name {
	a := k.lock()
	defer k.mu.Unlock()
	news := a.news
	a.news = nil
	return news
}

// Release ends a lease, and returns by item the costs that give its slots back. Other leases may
// take over slots of the idle buckets. [Keeper.Moved] returns the slots that a renewal is moving
// just now. Another call returns nothing.
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
		if b.over++; 2*b.over >= len(b.all) { // so ended leases cost no more than begun ones
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

// Drop stops the renewal of a forgotten lease: its slots are free when their epochs are over. It
// only sets a flag, as the garbage collector may call it. So the next look at the bucket closes
// Lost.
func (k *Keeper) Drop(s *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.dropped = true
}
