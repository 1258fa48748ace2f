package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// One write at a time is under way on a shard. Acquires of this process that meet it wait, and go out
// together in the next one, as a charge of the sum. A write that is late holds nobody up any longer.
// Every write has a goroutine of its own, which does not end when a caller leaves: what it then takes
// for that caller is given back.

// flight is a write that is under way, and who waits to go out next.
type flight struct {
	began time.Time
	queue []*acquirer
	late  *time.Timer // lets the queue go out although the write has no answer; nil while nobody waits
	ctx   bound       // of its calls
}

// writeTogether gets a write on a shard done for an acquire: with others if one is under way.
func (l *Limiter) writeTogether(ctx context.Context, k *desk, c known.Choice, me *acquirer, tries *attempt) turn {
	if err := ctx.Err(); err != nil { // a write that has gone out does not end with its caller
		return turn{err: &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: err}}
	}
	me.calls, me.apart = tries.Calls, tries.apart
	k.mu.Lock()
	f := k.flights[c.Shard]
	if f != nil && !c.Alone() && l.joins(f, me) {
		me.trips++
		me.queued = true
		k.Begin(known.Choice{Do: known.Take, Shard: c.Shard}, me.want, 0)
		f.queue = append(f.queue, me)
		if f.late == nil {
			f.late = time.AfterFunc(l.store.lately().patience()-time.Since(f.began), func() { l.overtake(k, c.Shard, f) })
		}
		k.mu.Unlock()
		return l.await(ctx, k, c.Shard, f, me, tries)
	}
	if !k.Begin(c, me.want, l.now()) {
		k.mu.Unlock()
		return turn{}
	}
	l.start(k, c, append(me.alone[:0], me))
	k.mu.Unlock()
	tries.Adopted = tries.Adopted || c.Do == known.Adopt
	return l.await(me.within.caller, k, c.Shard, nil, me, tries)
}

// joins reports whether an acquire waits for a flight: if that is not late, and its
// caller waits for the answers to that and to the next write.
func (l *Limiter) joins(f *flight, me *acquirer) bool {
	pace, under := l.store.lately(), time.Since(f.began)
	return under < pace.patience() && (len(f.queue) == 0 || f.queue[0].want.GoesWith(me.want)) &&
		!me.hurried(max(0, pace.trip-under)+pace.late)
}

// start sends the write of a group. The lock of the desk is held. The write ends with the last bound of the
// group. Those that were queued leave by themselves then, and first.
func (l *Limiter) start(k *desk, c known.Choice, group []*acquirer) {
	f := &flight{began: time.Now(), ctx: group[0].within.outliving()}
	for _, m := range group {
		until := m.within.until
		if m.queued {
			until = until.Add(1)
		}
		if until.After(f.ctx.until) {
			f.ctx.until = until
		}
	}
	k.flights.set(c.Shard, f)
	l.background.Go(func() { l.fly(k, c, f, group) }) // its caller may leave
}

// startQueue sends the queue of a flight, if there is one. The lock of the desk is held.
func (l *Limiter) startQueue(k *desk, shard int, f *flight) {
	if group := f.queue; len(group) > 0 {
		f.queue = nil
		l.start(k, known.Choice{Do: known.Take, Shard: shard}, group)
	}
}

// overtake sends the queue of a flight that is late.
func (l *Limiter) overtake(k *desk, shard int, f *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.late = nil // who joins from now on, because the table has become slower, waits for no other
	l.startQueue(k, shard, f)
}

// land sends the queue of a flight that has an answer. It comes before those get theirs that the flight
// was for, so none of them meets it again.
func (l *Limiter) land(k *desk, shard int, f *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.late != nil {
		f.late.Stop()
	}
	if k.flights[shard] == f {
		k.flights.set(shard, nil)
	}
	l.startQueue(k, shard, f)
}

// await waits for the turn of an acquire, which is in the queue of a flight or on its way.
func (l *Limiter) await(ctx context.Context, k *desk, shard int, f *flight, me *acquirer, tries *attempt) turn {
	select {
	case <-me.turns:
	case <-ctx.Done():
		if err := k.leave(shard, f, me); err != nil {
			tries.count(me)
			err.Err = ctx.Err()
			return turn{err: err}
		}
	}
	tries.count(me)
	return me.got
}

// leave takes an acquire out whose caller goes. If its costs are on their way, nobody knows yet what
// becomes of them; what they turn out to have taken is given back. It returns nil if the acquire was
// answered at the same moment.
func (k *desk) leave(shard int, f *flight, me *acquirer) *store.Failure {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f != nil {
		if i := slices.Index(f.queue, me); i >= 0 {
			f.queue = slices.Delete(f.queue, i, i+1)
			k.End(shard, me.want)
			return &store.Failure{Kind: store.Unavailable, Op: "UpdateItem"}
		}
	}
	select {
	case <-me.turns:
		return nil
	default:
	}
	me.gone = true
	if me.onWay {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem"}
	}
	return &store.Failure{Kind: store.Unavailable, Op: "UpdateItem"}
}

// progress is what was done so far for the write of a group.
type progress struct {
	calls  int // writes sent, for the first of the group
	sent   int // of those, by this call
	pauses pauses
	apart  bool // it creates no bucket
	mended bool // a limit that is half written has explained a write that was rejected
}

// fly writes until the group, or as much of it as the image covers, has an answer.
// Each acquire gets its turn, whatever happens. What they want is noted as under way.
func (l *Limiter) fly(k *desk, c known.Choice, f *flight, group []*acquirer) {
	ctx := &f.ctx
	defer ctx.end()
	var p known.Planned
	defer func() {
		plan := p
		if p := recover(); p != nil { // of a DynamoDB client of the caller's
			k.Unanswered(plan, true)
			l.end(k, c.Shard, f, group, turn{err: &store.Failure{Kind: store.Unknown, Op: "UpdateItem",
				Err: fmt.Errorf("panic: %v", p)}})
		}
	}()
	tries, looked := progress{calls: group[0].calls, apart: group[0].apart && len(group) == 1}, false
	for {
		group = l.serve(ctx, k, c.Shard, k.stay(c.Shard, group))
		group, p = l.planGroup(k, c, f, group)
		if len(group) == 0 {
			return
		}
		if looked = p.Creates && !looked; looked { // plan it again with what lives on
			if err := l.siblings(ctx, creation{group[0].want, k}); err != nil {
				l.end(k, c.Shard, f, group, turn{err: err})
				return
			}
			continue
		}
		tries.calls++
		tries.sent++
		k.sending(group)
		if n := group[0].want.Name; c.Do == known.Look {
			l.tell(ctx, Event{Kind: EventLook, Entity: n.Entity, Resource: n.Resource})
		}
		it, err := l.store.Write(ctx, p.Write)
		if err == nil {
			l.taken(ctx, k, f, p, group, tries.sent, it)
			return
		}
		k.Unanswered(p, store.KindOf(err) == store.Unknown)
		group = k.stay(c.Shard, group)
		refused, over, err := l.failed(ctx, k, c, p, &tries, err)
		if refused {
			k.outbid(group, p)
		}
		if over {
			l.end(k, c.Shard, f, group, turn{err: err})
			return
		}
	}
}

// planGroup plans the write for as much of a group as the image covers. The others
// decide again.
func (l *Limiter) planGroup(k *desk, c known.Choice, f *flight, group []*acquirer) ([]*acquirer, known.Planned) {
	pace := l.store.lately()
	if !c.Alone() {
		group = k.dismiss(c.Shard, group, pace)
	}
	if len(group) == 0 {
		l.land(k, c.Shard, f)
		return nil, known.Planned{}
	}
	var few [4]known.Want
	hurried := slices.IndexFunc(group, func(m *acquirer) bool { return m.last(pace) })
	if hurried < 0 {
		hurried = len(group)
	}
	n, p := k.Plan(c, wantsOf(group, few[:0]), hurried, l.moment)
	if n == 0 {
		l.land(k, c.Shard, f)
	}
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
func (l *Limiter) end(k *desk, shard int, f *flight, group []*acquirer, t turn) {
	var few [4]known.Want
	k.End(shard, wantsOf(group, few[:0])...)
	l.land(k, shard, f)
	for _, w := range group {
		w.give(t)
	}
}
