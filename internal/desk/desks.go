// Package desk makes the calls of the client. A desk holds everything that a process has of one
// bucket, and there internal/decide decides what to do; this package sends, waits, and reports. It
// has the only goroutines and timers of the client. It knows values only: grants, denials, failures
// and events, which package limiter turns into leases, errors and events of its own.
package desk

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// Options are the settings of [Desks]. All are required, unless they say otherwise.
type Options struct {
	decide.Settings
	Namespace string        // the id that prefixes the keys of all buckets
	Timeout   time.Duration // bounds every call, besides the caller's context
	Size      int           // how many desks are remembered
	// SettleWithin is the longest time that a settlement waits for a charge to go with; zero: not
	// at all.
	SettleWithin time.Duration
	Now          func() int64 // the clock, epoch ms
	Observe      func(context.Context, Event)
	// Notes makes the value that the package above keeps at a desk. Optional.
	Notes func() any
}

// Desks are all buckets of a process. They are safe for concurrent use by any number of goroutines.
type Desks struct {
	*cache
	Store      *Timed
	Breaker    Breaker // of all buckets
	Waiting    waitqueue.Queue
	Slots      inflight.Keeper
	calls      background // of users
	background background // work that no caller waits for
	closing    chan struct{}
}

// New returns the desks of buckets in a store.
func New(s store.Store, o Options) *Desks {
	d := &Desks{cache: newCache(o), Store: &Timed{Store: s, observe: o.Observe}, closing: make(chan struct{})}
	d.Waiting.Rooms = facets[waitqueue.Room]{d.cache, func(k *Desk) *waitqueue.Room { return &k.room }}
	d.Slots.Wake = func(n decide.Name) { d.background.try(func() { d.keepUp(n) }) }
	d.Slots.Random = store.Random
	d.Slots.Shelves = facets[inflight.Shelf]{d.cache, func(k *Desk) *inflight.Shelf { return &k.shelf }}
	return d
}

// later runs f after a while, unless the desks are closed by then: Close does the rest.
func (d *Desks) later(after time.Duration, f func()) {
	time.AfterFunc(after, func() { d.background.try(func() { _ = Guarded(func() error { f(); return nil }) }) })
}

// Moment is what a decision depends on besides the bucket and the request.
func (d *Desks) Moment() decide.Now {
	pace, at := d.Store.lately(), time.Now()
	return decide.Now{Ms: d.Now(), Mono: at.Sub(started).Milliseconds(), Random: store.Random(), At: at,
		Trip: float64(pace.trip) / float64(time.Millisecond), Late: pace.late}
}

// timing is the part of a Moment about how long calls take. It does not ask the user's clock, which
// may panic.
func (d *Desks) timing() decide.Now { return decide.Now{At: time.Now(), Late: d.Late()} }

// started is an instant of the clock that is never set.
var started = time.Now()

// Denied counts a denied request of a bucket, if the bucket is known.
func (d *Desks) Denied(n decide.Name) {
	if k := d.Peek(n); k != nil {
		k.Bucket.Denied(time.Since(started).Milliseconds())
	}
}

// Late is after how long a write is late; zero where nothing is known.
func (d *Desks) Late() time.Duration { return d.Store.lately().late }

// Wait returns at an instant at which no background work runs.
func (d *Desks) Wait() { <-d.background.rest() }

// Enter begins a call of a user. It reports false once the desks are closed, else Leave ends the
// call.
func (d *Desks) Enter() bool { return d.calls.enter() }

// Leave ends a call.
func (d *Desks) Leave() { d.calls.done() }

// Closing returns a channel that is closed once the desks close.
func (d *Desks) Closing() <-chan struct{} { return d.closing }

// closed reports whether the desks are closed, or close.
func (d *Desks) closed() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// Key returns the key of a shard.
func (d *Desks) Key(n decide.Name, shard int) item.Key {
	return layout.BucketKey(d.Namespace, n.Entity, n.Resource, shard)
}

// Bounded returns ctx with the limiter's own bound.
func (d *Desks) Bounded(ctx context.Context) *Bound {
	return &Bound{caller: ctx, until: time.Now().Add(d.Timeout)}
}

// within returns the bound that ctx is, or a new one.
func (d *Desks) within(ctx context.Context) *Bound {
	if b, ok := ctx.(*Bound); ok {
		return b
	}
	return d.Bounded(ctx)
}
