package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Acquires of this process that meet a write under way on a shard wait for it, but not once it is
// late. Then they go out together, as one charge of the sum. One alone never waits.

// writeTogether gets a write on a shard done for an acquire: on its own, or with others
// if one is under way.
func (l *Limiter) writeTogether(ctx context.Context, k *desk, c known.Choice, me *acquirer, tries *attempt) turn {
	k.mu.Lock()
	if f := k.flights[c.Shard]; f != nil && !c.Alone() && l.joins(f, me) {
		if me.turns == nil {
			me.turns = make(chan turn, 1)
		}
		f.queue = append(f.queue, me)
		me.trips++
		k.Begin(known.Choice{Do: known.Take, Shard: c.Shard}, me.want, 0)
		k.mu.Unlock()
		return l.await(ctx, k, c.Shard, f, me, tries)
	}
	if !k.Begin(c, me.want, l.now()) {
		k.mu.Unlock()
		return turn{}
	}
	next := &flight{began: time.Now()}
	group := append(me.alone[:0], me)
	k.flights.set(c.Shard, next)
	k.mu.Unlock()
	tries.Adopted = tries.Adopted || c.Do == known.Adopt
	return l.lead(ctx, k, c, next, group, tries)
}

// joins reports whether an acquire waits for a flight: if that is not late, and its
// caller waits for the answers to that and to the next write.
func (l *Limiter) joins(f *flight, me *acquirer) bool {
	pace, under := l.store.lately(), time.Since(f.began)
	return under < pace.patience() && (len(f.queue) == 0 || f.queue[0].want.GoesWith(me.want)) &&
		!me.hurried(max(0, pace.trip-under)+pace.late)
}

// await waits until the write under way is answered and somebody takes the queue
// along, but not for longer than patience: then the acquire leads the queue itself.
func (l *Limiter) await(ctx context.Context, k *desk, shard int, f *flight, me *acquirer, tries *attempt) turn {
	timer := time.NewTimer(l.store.lately().patience() - time.Since(f.began))
	defer timer.Stop()
	for {
		select {
		case t := <-me.turns:
			if t.lead != nil {
				return l.lead(ctx, k, known.Choice{Do: known.Take, Shard: shard}, t.flight, t.lead, tries)
			}
			tries.count(me)
			return t
		case <-timer.C: // it is late
			if next, group := k.overtake(shard, f, me); group != nil {
				return l.lead(ctx, k, known.Choice{Do: known.Take, Shard: shard}, next, group, tries)
			}
		case <-ctx.Done():
			return l.leave(ctx, k, shard, f, me, tries)
		}
	}
}

// overtake takes the queue of a flight that is late, if the acquire is still in it.
func (k *desk) overtake(shard int, f *flight, me *acquirer) (*flight, []*acquirer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(f.queue, me)
	if i < 0 {
		return nil, nil // it is on its way already
	}
	group := slices.Concat([]*acquirer{me}, f.queue[:i], f.queue[i+1:])
	f.queue = nil
	next := &flight{began: time.Now()}
	k.flights.set(shard, next)
	return next, group
}

// leave takes an acquire out whose caller has gone. If its costs are on their way,
// nobody knows yet what becomes of them; what they turn out to have taken is given back.
func (l *Limiter) leave(ctx context.Context, k *desk, shard int, f *flight, me *acquirer, tries *attempt) turn {
	k.mu.Lock()
	tries.count(me)
	if i := slices.Index(f.queue, me); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
		k.End(shard, me.want)
		k.mu.Unlock()
		return turn{err: &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: ctx.Err()}}
	}
	var t turn
	select {
	case t = <-me.turns:
	default:
		t, me.gone = turn{err: &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: ctx.Err()}}, true
	}
	k.mu.Unlock()
	if t.lead == nil {
		return t // it was answered at the same moment, or will be
	}
	k.End(shard, me.want)
	k.pass(shard, t.flight, t.lead[1:])
	return turn{err: &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: ctx.Err()}}
}

// pass makes the first of a group lead it, together with who waits behind the
// flight that has ended.
func (k *desk) pass(shard int, ended *flight, group []*acquirer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	group = append(slices.Clip(group), ended.queue...)
	ended.queue = nil
	var next *flight
	if len(group) > 0 {
		next = &flight{began: time.Now()}
	}
	if k.flights[shard] == ended {
		k.flights.set(shard, next)
	}
	if next != nil {
		group[0].give(turn{lead: group, flight: next})
	}
}

// lead sends the write of a group that begins with the caller, and gives every acquire its turn.
// Alone, it does so within the caller's context; a group does not end because its leader leaves.
func (l *Limiter) lead(ctx context.Context, k *desk, c known.Choice, f *flight, group []*acquirer,
	tries *attempt) turn {
	me := group[0]
	if len(group) == 1 {
		defer k.pass(c.Shard, f, nil)
		l.writeGroup(ctx, k, c, group, tries)
		return me.own()
	}
	go func() {
		defer k.pass(c.Shard, f, nil)
		within := l.bounded(context.WithoutCancel(ctx))
		defer within.end()
		l.writeGroup(within, k, c, group, &attempt{together: true, Attempt: known.Attempt{Calls: tries.Calls}})
	}()
	select {
	case t := <-me.turns:
		tries.count(me)
		return t
	case <-ctx.Done():
		return l.leave(ctx, k, c.Shard, f, me, tries)
	}
}

// writeGroup writes until the group, or as much of it as the image covers, has an answer.
// Each acquire gets its turn, whatever happens. What they want is noted as under way.
func (l *Limiter) writeGroup(ctx context.Context, k *desk, c known.Choice, group []*acquirer, tries *attempt) {
	var p known.Planned
	defer func() {
		plan := p
		if p := recover(); p != nil { // of a DynamoDB client of the caller's
			k.Unanswered(plan, true)
			k.end(c.Shard, group, turn{err: &store.Failure{Kind: store.Unknown, Op: "UpdateItem",
				Err: fmt.Errorf("panic: %v", p)}})
			if len(group) == 1 {
				panic(p)
			}
		}
	}()
	looked := false
	for {
		group = l.serve(ctx, k, c.Shard, group)
		group, p = l.planGroup(k, c, group)
		if len(group) == 0 {
			return
		}
		if looked = p.Creates && !looked; looked { // plan it again with what lives on
			if err := l.siblings(ctx, creation{group[0].want, k}); err != nil {
				k.end(c.Shard, group, turn{err: err})
				return
			}
			continue
		}
		tries.Calls++
		k.sentFor(group, tries)
		if n := group[0].want.Name; c.Do == known.Look {
			l.tell(ctx, Event{Kind: EventLook, Entity: n.Entity, Resource: n.Resource})
		}
		it, err := l.store.Write(ctx, p.Write)
		if err == nil {
			l.taken(ctx, k, p, group, tries, it)
			return
		}
		k.Unanswered(p, store.KindOf(err) == store.Unknown)
		refused, over, err := l.failed(ctx, k, c, p, tries, err)
		if refused {
			k.outbid(group, p)
		}
		if over {
			k.end(c.Shard, group, turn{err: err})
			return
		}
	}
}

// planGroup plans the write for as much of a group as the image covers. The others
// decide again.
func (l *Limiter) planGroup(k *desk, c known.Choice, group []*acquirer) ([]*acquirer, known.Planned) {
	pace := l.store.lately()
	if !c.Alone() {
		group = k.dismiss(c.Shard, group, pace)
	}
	if len(group) == 0 {
		return nil, known.Planned{}
	}
	var few [4]known.Want
	hurried := slices.IndexFunc(group, func(m *acquirer) bool { return m.last(pace) })
	if hurried < 0 {
		hurried = len(group)
	}
	n, p := k.Plan(c, wantsOf(group, few[:0]), hurried, l.moment)
	for _, m := range group[n:] {
		m.lost = m.lost || !p.Replaced
		m.give(turn{})
	}
	return group[:n], p
}

// outbid notes that a write for a group was refused, and whether others have taken the tokens.
func (k *desk) outbid(group []*acquirer, p known.Planned) {
	answered, lost := k.Outbid(p)
	for _, m := range group {
		if answered {
			m.trips++
		}
		m.lost = m.lost || lost
	}
}

// dismiss lets those of a group decide again who were outrun, and returns the others.
func (k *desk) dismiss(shard int, group []*acquirer, pace pace) []*acquirer {
	if !slices.ContainsFunc(group, func(m *acquirer) bool { return m.outrun(pace) }) {
		return group
	}
	return slices.DeleteFunc(slices.Clone(group), func(m *acquirer) bool {
		gone := m.outrun(pace)
		if gone {
			k.End(shard, m.want)
			m.give(turn{})
		}
		return gone
	})
}

// end gives all of a group the same turn.
func (k *desk) end(shard int, group []*acquirer, t turn) {
	var few [4]known.Want
	k.End(shard, wantsOf(group, few[:0])...)
	for _, w := range group {
		w.give(t)
	}
}
