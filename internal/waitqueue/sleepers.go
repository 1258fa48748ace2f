package waitqueue

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A sleeper has taken its costs into debt, on top of the debt of others before it, and sleeps until
// the level is back at zero. A lease of this process may give back tokens that were taken earlier,
// because its caller leaves or the work has cost less. Then the level gets there sooner, and the
// sleeper is woken. Tokens that other processes give back serve the requests that follow. A look
// (below) finds the rest.

// Owed is the debt of a request on one shard.
type Owed struct {
	Image  table.Shard // with its charge in it
	Limits []string    // in force
	Asked  int64       // the turn before the charge was sent
}

// Sleeper is a request that sleeps.
type Sleeper struct {
	parts  []debtor
	sooner bell // rings when it may go on sooner
}

// Sooner returns a channel that brings a value when the sleeper may go on sooner: it must call
// [Queue.Until] again.
func (s *Sleeper) Sooner() <-chan struct{} { return s.sooner }

// debtor is the debt of a sleeper on one shard.
type debtor struct {
	name   decide.Name
	room   *Room       // of the named bucket, kept while it sleeps
	image  table.Shard // with its charge in it, and the give-backs since
	limits []string    // in force
	asked  int64       // the turn before the charge was sent
	paid   int64       // when looks have shown the debt paid; bucket.Never: not yet
	looked time.Time   // when the shard was last read, or charged
}

// until returns when the debt is paid.
func (d *debtor) until() int64 { return min(d.paid, decide.PaidBack(d.image, d.limits)) }

// hear adds given-back tokens to the debtor's level, and reports whether they concern the debtor.
// They do if they were taken before its charge and given back after. Its image already shows
// earlier give-backs. For tokens taken after its charge, the debtor does not wait.
func (d *debtor) hear(g Return) bool {
	mine := MomentOf(d.image)
	if !g.Taken.before(mine, d.asked) || !mine.before(g.Given) {
		return false
	}
	for _, c := range g.Costs {
		if j := d.image.State.Index(c.Limit.Name); j >= 0 && c.Milli < 0 {
			slot := &d.image.State.Slots[j]
			slot.Tokens = bucket.SubSat(slot.Tokens, c.Milli)
		}
	}
	return true
}

// Turn returns a point in the order of this process's actions, later than all before it. A write
// that was answered before a turn precedes any write sent after it, on any shard.
func (q *Queue) Turn() int64 { return q.turns.Add(1) }

// Add adds a sleeper with its debts. End it by Remove.
func (q *Queue) Add(owed []Owed) *Sleeper {
	s := &Sleeper{sooner: newBell()}
	for _, o := range owed {
		o.Image.State.Slots = slices.Clone(o.Image.State.Slots)
		s.parts = append(s.parts, debtor{name: decide.Name{Entity: o.Image.Entity, Resource: o.Image.Resource},
			image: o.Image, limits: o.Limits, asked: o.Asked,
			paid: bucket.Never, looked: time.Now()})
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range s.parts {
		room := q.Rooms.Pin(s.parts[i].name)
		if s.parts[i].room = room; !slices.Contains(room.sleepers, s) { // it may owe on several shards of a bucket
			room.sleepers = append(room.sleepers, s)
		}
	}
	for _, g := range q.recent {
		s.hear(g)
	}
	return s
}

// Remove removes a sleeper.
func (q *Queue) Remove(s *Sleeper) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, part := range s.parts {
		part.room.sleepers = slices.DeleteFunc(part.room.sleepers, func(o *Sleeper) bool { return o == s })
		q.Rooms.Unpin(part.name)
	}
}

// hear adds a give-back; the lock of the queue is held.
func (s *Sleeper) hear(g Return) {
	for i := range s.parts {
		if s.parts[i].hear(g) {
			s.sooner.ring()
		}
	}
}

// Until returns when a sleeper may go on, in epoch milliseconds: once its debt is paid on every
// shard. Zero or a past instant: at once.
func (q *Queue) Until(s *Sleeper) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := int64(0)
	for _, part := range s.parts {
		at = max(at, part.until())
	}
	return at
}

// Moment is a point in the history of a shard. The zero value is not known.
type Moment struct {
	life
	writes int64 // that the meter has counted
}

// life is one generation of a shard.
type life struct {
	name       decide.Name
	shard      int
	generation int64
}

// MomentOf returns the moment of an image.
func MomentOf(b table.Shard) Moment {
	i := b.State.Index(bucket.WCU)
	if i < 0 || b.Entity == "" {
		return Moment{}
	}
	name := decide.Name{Entity: b.Entity, Resource: b.Resource}
	return Moment{life{name, b.State.Shard, b.Generation}, b.State.Slots[i].Used}
}

// before reports whether a point was certainly before another.
func (m Moment) before(o Moment) bool {
	return m.life == o.life && m.writes < o.writes
}

// Taking is when a lease had taken all that it has: on the shard that one write has charged, and
// in the order of this process, see [Queue.Turn]. Each may be zero, which is not known.
type Taking struct {
	Moment Moment
	Turn   int64
}

// before reports whether all was certainly taken before an image that a call has brought which
// began at a turn.
func (t Taking) before(image Moment, asked int64) bool {
	return t.Moment.before(image) || t.Turn > 0 && t.Turn < asked
}

// Return is a lease's give-back on one shard.
type Return struct {
	Taken Taking
	Given Moment // when it was given back
	Costs []table.Cost
}

// No message reports tokens that other processes or an operator put back. So one of a shard's
// sleepers reads it now and then, and all of them use the result. Once the level of a shard is back
// at zero, all costs that it was charged before are paid, whichever sleeper owes them. A sleeper
// goes on then, or at its own time, whichever comes first.
//
// Example: a level of -50 that refills by 1 a second. The last one in the queue sleeps for 50 s.
// After 10 s an operator resets the bucket. At 15 s a sleeper reads a level at which nothing is
// owed, and all go on.

// LongestPause is the longest time between two looks of a shard's sleepers, and of the first in a
// line. For so long they may miss that an operator or another process has put tokens back.
const LongestPause = 15 * time.Second

// Look is a shard that is about to be read, with the sleepers that use the result: those charged to
// it before. The image does not show later ones.
type Look struct {
	Key item.Key
	who []debtOf
}

// debtOf is a sleeper's debt on the shard.
type debtOf struct {
	by   *Sleeper
	part *debtor
}

// Due returns the sleeper's shards without a look for LongestPause, and after which time to ask
// again. From now on they count as looked at.
func (q *Queue) Due(s *Sleeper) (looks []Look, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	next = LongestPause
	for i := range s.parts {
		mine := &s.parts[i]
		if since := now.Sub(mine.looked); since < LongestPause {
			next = min(next, LongestPause-since)
			continue
		}
		k := Look{Key: mine.image.Key()}
		for _, o := range mine.room.sleepers {
			for j := range o.parts {
				if o.parts[j].image.Key() == k.Key {
					o.parts[j].looked = now
					k.who = append(k.who, debtOf{o, &o.parts[j]})
				}
			}
		}
		looks = append(looks, k)
	}
	return looks, next
}

// Saw gives the sleepers of a shard its image. If the bucket has split or merged since, part of
// their debt is elsewhere, so they sleep on. A sleeper that learns nothing is not woken: it would
// use the clock then, and go on too early if the clock was set ahead meanwhile.
func (q *Queue) Saw(k Look, b table.Shard) {
	if b.State.NoClock || len(b.Partial) > 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range k.who {
		paid := decide.PaidBack(b, o.part.limits)
		if b.State.Count() == o.part.image.State.Count() && paid < o.part.until() {
			o.part.paid = paid
			o.by.sooner.ring()
		}
	}
}
