package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Acquires of this process that meet a write under way on a shard wait for it, until it
// is late at most, and go out together as one charge of the sum. One alone never waits.

// flight is a write that is under way, and who waits to go out next.
type flight struct {
	began time.Time
	queue []*acquirer
}

// writeTogether gets a write on a shard done for an acquire: on its own, or with others
// if one is under way.
func (l *Limiter) writeTogether(ctx context.Context, k *known, c choice, me *acquirer, tries *attempt) turn {
	k.mu.Lock()
	s := k.at(c.shard)
	alone := c.look || c.adopt || c.owe
	if f := s.flight; f != nil && !alone && l.joins(f, me) {
		f.queue = append(f.queue, me)
		me.trips++
		s.underWay.add(me.want.costs)
		k.mu.Unlock()
		return l.await(ctx, k, c.shard, f, me, tries)
	}
	next := &flight{began: time.Now()}
	group := []*acquirer{me}
	s.underWay.add(me.want.costs)
	s.flight = next
	if c.look || c.asks {
		k.lookedAt = l.now()
	}
	if c.adopt {
		k.adoptedAt, tries.adopted = l.now(), true
	}
	k.mu.Unlock()
	return l.lead(ctx, k, c, next, group, tries)
}

// joins reports whether an acquire waits for a flight: if that is not late, and its
// caller waits for the answers to that and to the next write.
func (l *Limiter) joins(f *flight, me *acquirer) bool {
	pace, under := l.store.lately(), time.Since(f.began)
	return under < pace.patience() && goesWith(f.queue, me) && !me.hurried(max(0, pace.trip-under)+pace.late)
}

// await waits until the write under way is answered and somebody takes the queue
// along, but not for longer than patience: then the acquire leads the queue itself.
func (l *Limiter) await(ctx context.Context, k *known, shard int, f *flight, me *acquirer, tries *attempt) turn {
	timer := time.NewTimer(l.store.lately().patience() - time.Since(f.began))
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
// nobody knows yet what becomes of them; what they turn out to have taken is given back.
func (l *Limiter) leave(ctx context.Context, k *known, shard int, f *flight, me *acquirer) turn {
	k.mu.Lock()
	if i := slices.Index(f.queue, me); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
		k.at(shard).underWay.remove(me.want.costs)
		k.mu.Unlock()
		return turn{err: &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: ctx.Err()}}
	}
	var t turn
	select {
	case t = <-me.turn:
	default:
		t, me.gone = turn{err: &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: ctx.Err()}}, true
	}
	k.mu.Unlock()
	if t.lead == nil {
		return t // it was answered at the same moment, or will be
	}
	k.mu.Lock()
	k.at(shard).underWay.remove(me.want.costs)
	k.mu.Unlock()
	k.pass(shard, t.flight, t.lead[1:])
	return turn{err: &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: ctx.Err()}}
}

// pass makes the first of a group lead it, together with who waits behind the
// flight that has ended.
func (k *known) pass(shard int, ended *flight, group []*acquirer) {
	k.mu.Lock()
	defer k.mu.Unlock()
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
		return l.leave(ctx, k, c.shard, f, me)
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
		t, over := l.failed(ctx, k, c, p, tries, err)
		if t.again {
			k.outbid(c.shard, group, p)
		}
		if over {
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
	s, now, pace := k.at(c.shard), l.now(), l.store.lately()
	s.underWay.removeAll(group)
	n := 1
	if !c.look && !c.adopt && !c.owe { // what is sent for these is for the first only
		group = k.dismiss(group, func(m *acquirer) bool { return m.outrun(pace) })
		d := l.decider(k, want{}, now, nil)
		d.asking = c.asks
		n = d.covered(c.shard, group)
	}
	k.dismiss(group[n:], func(m *acquirer) bool { m.refused++; return true })
	if n == 0 {
		return nil, plan{}
	}
	group = group[:n]
	for _, m := range group {
		s.underWay.add(m.want.costs)
		c.last = c.last || m.last(pace)
	}
	p := k.plan(c, joined(group), now, int64(l.opts.Slack))
	p.since, p.life = s.serial, s.image.Generation
	return group, p
}

// outbid notes that a write for a group was refused. If it was a charge, and the rules of
// the bucket are still those that it was planned by, others have taken the tokens. That
// the bucket is missing, or is not any more, says nothing about tokens.
func (k *known) outbid(shard int, group []*acquirer, p plan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.at(shard)
	for _, m := range group {
		if s.imaged() && !p.creates {
			m.trips++
		}
		if p.charges && p.takes && s.image.Generation == p.life {
			m.refused++
		}
	}
}

// dismiss lets some of a group decide again, and returns the others.
func (k *known) dismiss(group []*acquirer, some func(*acquirer) bool) []*acquirer {
	return slices.DeleteFunc(slices.Clone(group), func(m *acquirer) bool {
		gone := some(m)
		if gone {
			m.turn <- turn{again: true}
		}
		return gone
	})
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
