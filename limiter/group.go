package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Acquires of this process that meet a write under way on a shard wait for it, a
// few milliseconds at most, and go out together as one charge of the sum. One
// alone never waits.

// patience bounds how long an acquire waits for a write of another goroutine. It
// is about what such a write takes; one that hangs holds nobody up for longer.
const patience = 10 * time.Millisecond

// flight is a write that is under way, and who waits to go out next.
type flight struct {
	began time.Time
	queue []*acquirer
}

// acquirer is one acquire of a group, or of the queue of those who will be the next one.
type acquirer struct {
	want want
	turn chan turn // gets one turn for every time it is queued
}

// turn is what comes of waiting: one of its fields is set.
type turn struct {
	lease  *Lease
	err    error
	again  bool        // decide again, from a newer image
	lead   []*acquirer // lead this group, which begins with oneself
	flight *flight     // with lead
}

// writeTogether gets a write on a shard done for an acquire: on its own, or with others
// if one is under way.
func (l *Limiter) writeTogether(ctx context.Context, k *known, c choice, me *acquirer, tries *attempt) turn {
	k.mu.Lock()
	s := k.at(c.shard)
	alone := c.look || c.adopt || c.owe
	if f := s.flight; f != nil && !alone && time.Since(f.began) < patience && goesWith(f.queue, me) {
		f.queue = append(f.queue, me)
		s.underWay.add(me.want.costs)
		k.mu.Unlock()
		return l.await(ctx, k, c.shard, f, me, tries)
	}
	next := &flight{began: time.Now()}
	group := []*acquirer{me}
	s.underWay.add(me.want.costs)
	s.flight = next
	if c.look {
		k.lookedAt = l.now()
	}
	if c.adopt {
		k.adoptedAt, tries.adopted = l.now(), true
	}
	k.mu.Unlock()
	return l.lead(ctx, k, c, next, group, tries)
}

// goesWith reports whether an acquire can go out with those in a queue: what they
// bring in force must be the same.
func goesWith(queue []*acquirer, me *acquirer) bool {
	return len(queue) == 0 || queue[0].want.life == me.want.life &&
		slices.EqualFunc(queue[0].want.costs, me.want.costs, func(a, b table.Cost) bool { return a.Limit == b.Limit })
}

// await waits until the write under way is answered and somebody takes the queue
// along, but not for longer than patience: then the acquire leads the queue itself.
func (l *Limiter) await(ctx context.Context, k *known, shard int, f *flight, me *acquirer, tries *attempt) turn {
	timer := time.NewTimer(patience - time.Since(f.began))
	defer timer.Stop()
	late := timer.C
	for {
		select {
		case t := <-me.turn:
			if t.lead != nil {
				return l.lead(ctx, k, choice{shard: shard}, t.flight, t.lead, tries)
			}
			return t
		case <-late:
			late = nil
			if next, group := k.overtake(shard, f, me); group != nil {
				return l.lead(ctx, k, choice{shard: shard}, next, group, tries)
			}
		case <-ctx.Done():
			return l.leave(ctx, k, shard, f, me)
		}
	}
}

// overtake takes the queue of a flight that is late, if the acquire is still in it.
func (k *known) overtake(shard int, f *flight, me *acquirer) (*flight, []*acquirer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(f.queue, me)
	if i < 0 {
		return nil, nil // it is on its way already
	}
	group := slices.Concat([]*acquirer{me}, f.queue[:i], f.queue[i+1:])
	f.queue = nil
	next := &flight{began: time.Now()}
	k.at(shard).flight = next
	return next, group
}

// leave takes an acquire out whose caller has gone. If its costs are on their way,
// nobody knows what becomes of them.
func (l *Limiter) leave(ctx context.Context, k *known, shard int, f *flight, me *acquirer) turn {
	k.mu.Lock()
	if i := slices.Index(f.queue, me); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
		k.at(shard).underWay.remove(me.want.costs)
		k.mu.Unlock()
		return turn{err: &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: ctx.Err()}}
	}
	k.mu.Unlock()
	select {
	case t := <-me.turn:
		if t.lead == nil {
			return t // it was answered at the same moment
		}
		k.mu.Lock()
		k.at(shard).underWay.remove(me.want.costs)
		k.mu.Unlock()
		k.pass(shard, t.flight, t.lead[1:])
		return turn{err: &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: ctx.Err()}}
	default:
		return turn{err: &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: ctx.Err()}}
	}
}

// pass makes the first of a group lead it, together with who waits behind the
// flight that has ended.
func (k *known) pass(shard int, ended *flight, group []*acquirer) {
	k.mu.Lock()
	group = append(slices.Clip(group), ended.queue...)
	ended.queue = nil
	s := k.at(shard)
	var next *flight
	if len(group) > 0 {
		next = &flight{began: time.Now()}
	}
	if s.flight == ended {
		s.flight = next
	}
	k.mu.Unlock()
	if next != nil {
		group[0].turn <- turn{lead: group, flight: next}
	}
}

// lead sends the write of a group, of which the caller is the first, and gives
// every acquire its turn. Alone, it does so within the caller's context; a group
// does not end because its leader leaves.
func (l *Limiter) lead(ctx context.Context, k *known, c choice, f *flight, group []*acquirer, tries *attempt) turn {
	me := group[0]
	if len(group) == 1 {
		defer k.pass(c.shard, f, nil)
		l.writeGroup(ctx, k, c, group, tries)
		return <-me.turn
	}
	go func() {
		defer k.pass(c.shard, f, nil)
		within := l.bounded(context.WithoutCancel(ctx))
		defer within.end()
		l.writeGroup(within, k, c, group, &attempt{calls: tries.calls, asked: []int{c.shard}})
	}()
	select {
	case t := <-me.turn:
		return t
	case <-ctx.Done():
		return turn{err: &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: ctx.Err()}}
	}
}

// writeGroup writes until the group, or as much of it as the image covers, has an answer.
// Each acquire gets its turn, whatever happens. What they want is noted as under way.
func (l *Limiter) writeGroup(ctx context.Context, k *known, c choice, group []*acquirer, tries *attempt) {
	defer func() {
		if p := recover(); p != nil { // of a DynamoDB client of the caller's
			k.end(c.shard, group, turn{err: &store.Failure{Kind: store.Unknown, Op: "UpdateItem",
				Err: fmt.Errorf("panic: %v", p)}})
			if len(group) == 1 {
				panic(p)
			}
		}
	}()
	looked := false
	for {
		var p plan
		group, p = l.planGroup(k, c, group)
		if len(group) == 0 {
			return
		}
		if looked = p.creates && !looked; looked { // plan it again with what lives on
			if _, err := l.siblings(ctx, creation{group[0].want, k}); err != nil {
				k.end(c.shard, group, turn{err: err})
				return
			}
			continue
		}
		tries.sent(c.shard)
		if n := group[0].want.name; c.look {
			l.tell(ctx, Event{Kind: EventLook, Entity: n.entity, Resource: n.resource})
		}
		it, err := l.store.Write(ctx, p.write)
		if err == nil {
			l.taken(ctx, k, c.shard, p, group, it)
			return
		}
		if t, over := l.failed(ctx, k, c, p, tries, err); over {
			k.end(c.shard, group, t)
			return
		}
	}
}

// planGroup plans the write for as much of a group as the image covers. The others
// decide again.
func (l *Limiter) planGroup(k *known, c choice, group []*acquirer) ([]*acquirer, plan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, now := k.at(c.shard), l.now()
	s.underWay.removeAll(group)
	n := s.covered(group, now, c.look || c.adopt || c.owe)
	for _, w := range group[n:] {
		w.turn <- turn{again: true}
	}
	if n == 0 {
		return nil, plan{}
	}
	group = group[:n]
	for _, m := range group {
		s.underWay.add(m.want.costs)
	}
	p := k.plan(c, joined(group), now, int64(l.opts.Slack))
	p.since = s.serial
	return group, p
}

// end gives all of a group the same turn.
func (k *known) end(shard int, group []*acquirer, t turn) {
	k.mu.Lock()
	k.at(shard).underWay.removeAll(group)
	k.mu.Unlock()
	for _, w := range group {
		w.turn <- t
	}
}
