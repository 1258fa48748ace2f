package waitqueue

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A sleeper has taken its costs into debt, on top of the debts before it, and sleeps until the
// level is back at zero. A lease of this process may give tokens back that were taken earlier,
// because its caller leaves or the work cost less. The level then reaches zero sooner, and the
// sleeper is woken. Tokens that other processes give back serve later requests; a look (below)
// notices all other changes.

// Owed is the debt of a request on one shard.
type Owed struct {
	Image  table.Shard // with the charge included
	Limits []string    // in force
	Asked  int64       // the turn before the charge was sent
}

// Sleeper is a request that sleeps.
type Sleeper struct {
	parts  []debtor
	sooner bell // rings when it may go on sooner
}

// Sooner returns a channel that receives a value when the sleeper may be able to go on sooner: call
// [Queue.Until] again.
func (s *Sleeper) Sooner() <-chan struct{} { return s.sooner }

// debtor is a sleeper's debt on one shard.
type debtor struct {
	name   decide.Name
	room   *Room       // of the named bucket, kept while it sleeps
	image  table.Shard // with the charge and all later give-backs included
	limits []string    // in force
	asked  int64       // the turn before the charge was sent
	paid   int64       // when the debt is paid according to looks; bucket.Never: unknown
	looked time.Time   // when the shard was last read or charged
}

// until returns when the debt is paid.
func (d *debtor) until() int64 { return min(d.paid, decide.PaidBack(d.image, d.limits)) }

// hear adds given-back tokens to the debtor's level, and reports whether they concern the debtor:
// only if they were taken before its charge and given back after it. Its image already includes
// earlier give-backs, and tokens taken after its charge do not delay it.
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

// Turn returns the next number in the order of this process's actions. A write that was answered
// before a turn precedes any write sent after it, on any shard.
func (q *Queue) Turn() int64 { return q.turns.Add(1) }

// Add adds a sleeper with its debts. Call Remove to end it.
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

// hear applies a give-back. The queue's lock is held.
func (s *Sleeper) hear(g Return) {
	for i := range s.parts {
		if s.parts[i].hear(g) {
			s.sooner.ring()
		}
	}
}

// Until returns when a sleeper may go on, in epoch milliseconds: when its debts on all shards are
// paid. Zero or a past instant means now.
func (q *Queue) Until(s *Sleeper) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := int64(0)
	for _, part := range s.parts {
		at = max(at, part.until())
	}
	return at
}

// Moment is a point in the history of a shard. The zero value means unknown.
type Moment struct {
	life
	writes int64 // as counted by the meter
}

// life is one generation of a shard.
type life struct {
	name       decide.Name
	shard      int
	generation int64
}

// MomentOf returns the moment at which an image was read.
func MomentOf(b table.Shard) Moment {
	i := b.State.Index(bucket.WCU)
	if i < 0 || b.Entity == "" {
		return Moment{}
	}
	name := decide.Name{Entity: b.Entity, Resource: b.Resource}
	return Moment{life{name, b.State.Shard, b.Generation}, b.State.Slots[i].Used}
}

// before reports whether m certainly precedes o.
func (m Moment) before(o Moment) bool {
	return m.life == o.life && m.writes < o.writes
}

// Taking is when a lease had taken all its tokens: on the shard that its single write charged, and
// in the order of this process, see [Queue.Turn]. Either may be zero, meaning unknown.
type Taking struct {
	Moment Moment
	Turn   int64
}

// TakingOf returns when all tokens of a grant were taken: at the moment of its image, unless the image
// was worked out.
func TakingOf(image table.Shard, worked bool, turn int64) Taking {
	if worked {
		return Taking{Turn: turn}
	}
	return Taking{MomentOf(image), turn}
}

// before reports whether all tokens were certainly taken before an image, which a call brought that
// began at the turn asked.
func (t Taking) before(image Moment, asked int64) bool {
	return t.Moment.before(image) || t.Turn > 0 && t.Turn < asked
}

// Return is what one lease gives back on one shard.
type Return struct {
	Taken Taking
	Given Moment // when it was given back
	Costs []table.Cost
}

// Tokens that another process or an operator puts back are not announced. So one of a shard's
// sleepers reads the shard from time to time, and all of them use the result. When the level of a
// shard is back at zero, all earlier charges are paid, whichever sleeper made them. A sleeper then
// goes on, or at its own time if that is earlier.
//
// Example: the level is -50 and refills by 1 per second, so the last sleeper waits for 50 s. After
// 10 s an operator resets the bucket. At 15 s a sleeper reads a level without debt, and all of them
// go on.

// LongestPause is the longest time between two looks at a shard by its sleepers, or by the first of
// a line. For that long, they may not notice tokens that an operator or another process put back.
const LongestPause = 15 * time.Second

// Look is a shard that is about to be read, and the sleepers that use the result: those charged
// before the read. The image does not include later charges.
type Look struct {
	Key item.Key
	who []debtOf
}

// debtOf is a sleeper's debt on the shard.
type debtOf struct {
	by   *Sleeper
	part *debtor
}

// Due returns the sleeper's shards that had no look for LongestPause, and the time after which to
// call it again. The returned shards count as looked at from now on.
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

// Saw passes the image of a shard to its sleepers. If the bucket has split or merged since, part of
// their debt is elsewhere, so they sleep on. A sleeper whose debt is not paid earlier than expected
// is not woken: it would use the clock, and go on too early if the clock was set ahead meanwhile.
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
