package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What the steps of a bucket decide is carried out here. Every call has a goroutine of its own, which
// does not end when a caller leaves: what it then takes for that caller is given back.

// carryOut does what a step has decided. Events come first. If an observer panics, all callers are still woken.
func (l *Limiter) carryOut(ctx context.Context, k *desk, e *decide.Effects) {
	defer l.goOn(ctx, k, e)
	for _, w := range e.Yielded {
		l.tellYield(ctx, w)
	}
}

// goOn starts what a step has decided, and wakes the callers of answered waiters.
func (l *Limiter) goOn(ctx context.Context, k *desk, e *decide.Effects) {
	for _, w := range e.Queued {
		if t := of(w); t.queues.CompareAndSwap(false, true) {
			t.ready <- false
		}
	}
	for range e.Calls {
		l.background.begin()
	}
	for _, late := range e.Late {
		time.AfterFunc(late.In, func() {
			var e decide.Effects
			k.Overdue(late.Call, time.Now(), &e)
			l.carryOut(context.Background(), k, &e)
		})
	}
	for _, g := range e.Left {
		l.dropped(ctx, l.lease(g))
	}
	for _, r := range e.Renew {
		l.takeMore(of(r.For).within, k, r.For.Want, r.Held)
	}
	for _, p := range e.Plans {
		l.work(ctx, k.name, p.Plan, p.Count)
	}
	for _, w := range e.Answered {
		if t := of(w); t.ready != nil {
			t.ready <- true
		}
	}
	for _, c := range e.Calls { // after the answers, so that callers wake in the order of the writes
		t := of(c.First())
		if c.Choice.Owe {
			t.turn = l.sleepers.Turn()
		}
		with := &t.first
		if t.leads {
			with = &carrier{}
		}
		t.leads = true
		go l.carry(k, c, with)
	}
}

// carrier is what carrying out a call needs.
type carrier struct {
	bound   bound
	effects decide.Effects
}

// of returns the attempt of a waiter.
func of(w *decide.Waiter) *attempt { return w.Handle.(*attempt) }

// carry carries a call out, until it has landed. A panic of the caller's DynamoDB client, clock or
// observer ends it with an error for all that ride with it.
func (l *Limiter) carry(k *desk, c *decide.Call, with *carrier) {
	defer l.background.done()
	with.bound = of(c.First()).within.outliving()
	ctx, e := &with.bound, &with.effects
	ctx.until = c.Until
	defer ctx.end()
	defer func() {
		if p := recover(); p != nil {
			*e = decide.Effects{}
			err := &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: fmt.Errorf("panic: %v", p)}
			k.Abort(c, err, time.Now(), e)
			l.carryOut(ctx, k, e)
		}
	}()
	for {
		*e = decide.Effects{}
		k.Advance(c, l.moment, e)
		l.carryOut(ctx, k, e)
		if c.Next == decide.Over {
			return
		}
		out, ok := l.perform(ctx, k, c)
		if !ok {
			continue
		}
		*e = decide.Effects{}
		k.Done(c, out, l.moment, e)
		l.finish(ctx, k, out, e)
		if c.Next == decide.Over {
			return
		}
	}
}

// finish carries out what follows from the answer to a call, also if the caller's clock panics here.
func (l *Limiter) finish(ctx context.Context, k *desk, out decide.Outcome, e *decide.Effects) {
	defer l.carryOut(ctx, k, e)
	if out.Held {
		l.mind(k, k.name, out.Image.State.Shard)
		l.grow(ctx, k, *out.Image)
	}
}

// perform does what a call needs next. ok is false if it is to be planned again.
func (l *Limiter) perform(ctx *bound, k *desk, c *decide.Call) (out decide.Outcome, ok bool) {
	if c.Next == decide.Siblings {
		err := l.siblings(ctx, creation{c.Wants(), k})
		return decide.Outcome{Err: err}, err != nil
	}
	if c.Choice.Do == decide.Look {
		l.tell(ctx, Event{Kind: EventLook, Entity: k.name.Entity, Resource: k.name.Resource})
	}
	it, err := l.store.Write(ctx, c.Write)
	if err != nil {
		k.Returned(c, store.KindOf(err) == store.Unknown)
		return l.explained(ctx, k, c, err)
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		if c.Takes {
			err = l.unread(ctx, c, err)
		}
		k.Returned(c, true)
		return decide.Outcome{Err: err}, true
	}
	l.tellAhead(ctx, c)
	return decide.Outcome{Held: true, Image: &b}, true
}

// explained finds out why the write of a call does not hold, and pauses where that helps: it is sent again
// then.
func (l *Limiter) explained(ctx context.Context, k *desk, c *decide.Call, cause error) (out decide.Outcome, ok bool) {
	if r, refused := errors.AsType[*store.Refused](cause); refused {
		if r.Old == nil {
			k.Missing(l.now(), c.Shard)
			l.restore(ctx, k, c.Shard)
			return out, true
		}
		b, err := table.DecodeShard(r.Old)
		if err != nil { // an answer, and the trouble of this bucket alone
			return decide.Outcome{Err: err}, true
		}
		if c.Charges {
			l.tell(ctx, Event{Kind: EventRefused, Entity: b.Entity, Resource: b.Resource})
		}
		return decide.Outcome{Image: &b}, true
	}
	if !c.Last() && pause(ctx, cause, c) {
		return out, false
	}
	b, err := l.explain(ctx, cause, c.Write, &c.Mended)
	return decide.Outcome{Image: &b, Err: err}, true
}

// unread gives back what a group has taken from an item that turned out to be unreadable: a plain
// add looks only at what it takes from. It returns the result for the group.
func (l *Limiter) unread(ctx context.Context, c *decide.Call, cause error) error {
	bounded := l.bounded(context.WithoutCancel(ctx))
	defer bounded.end()
	w := c.Wants()
	it := leaseItem{name: w.Name, key: c.Write.Target(), shard: c.Shard}
	err := l.settle(bounded, it, table.Shard{}, queue.Taking{}, negative(w.Costs))
	if err != nil {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(cause, err)}
	}
	return cause
}

// dropped gives back in the background what was taken for callers that have left.
func (l *Limiter) dropped(ctx context.Context, lease *Lease) {
	ctx = context.WithoutCancel(ctx)
	l.background.Go(func() { l.giveBack(ctx, []*Lease{lease}) }) // which reports the result
}
