package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// This file carries out the decisions of a bucket. Every call has a goroutine of its own, which
// does not end when a caller leaves: tokens that it then takes for that caller are given back.

// carryOut carries out the decisions of a step. Events come first. If an observer panics, all
// callers are still woken.
func (d *Desks) carryOut(ctx context.Context, k *Desk, e *decide.Effects) {
	defer d.goOn(ctx, k, e)
	for _, w := range e.Yielded {
		d.Observe(ctx, Event{Kind: Yielded, Name: w.Name, Limits: table.LimitsOf(w.Costs)})
	}
	for _, s := range e.Settled {
		d.rode(ctx, k.Name, s)
	}
}

// goOn starts the calls and the work of a step, and wakes the callers of answered waiters.
func (d *Desks) goOn(ctx context.Context, k *Desk, e *decide.Effects) {
	for _, w := range e.Queued {
		if t := of(w); t.queues.CompareAndSwap(false, true) {
			t.ready <- false
		}
	}
	for range e.Calls {
		d.background.begin()
	}
	for _, late := range e.Late {
		time.AfterFunc(late.In, func() {
			var e decide.Effects
			k.Overdue(late.Call, time.Now(), &e)
			d.carryOut(context.Background(), k, &e)
		})
	}
	for _, s := range e.Settled {
		if finish(s.All, settled{err: lost(s)}); s.Image != nil {
			d.wakeBehind(k, s.All, *s.Image)
		}
	}
	for _, dues := range e.Dues {
		d.settleDues(k, dues)
	}
	for _, g := range e.Left {
		d.dropped(ctx, g)
	}
	for _, r := range e.Renew {
		d.takeMore(of(r.For).within, k, r.For.Want, r.Held)
	}
	for _, p := range e.Plans {
		d.work(ctx, k.Name, p)
	}
	for _, m := range e.Minded {
		d.mindIn(m.In, k, m.Shard, d.Timeout)
	}
	for _, w := range e.Answered {
		if t := of(w); t.ready != nil {
			t.ready <- true
		}
	}
	for _, c := range e.Calls { // after the answers, so that callers wake in the order of the writes
		t := of(c.First())
		if c.Choice.Owe {
			t.turn = d.Waiting.Turn()
		}
		with := &t.first
		if t.leads {
			with = &carrier{}
		}
		t.leads = true
		go d.carry(k, c, with)
	}
}

// carry carries a call out, until it has landed. A panic of the caller's DynamoDB client, clock or
// observer ends the call with an error for all its riders.
func (d *Desks) carry(k *Desk, c *decide.Call, with *carrier) {
	defer d.background.done()
	with.bound = of(c.First()).within.outliving()
	ctx, e := &with.bound, &with.effects
	ctx.until = c.Until
	defer ctx.End()
	defer func() {
		if p := recover(); p != nil {
			*e = decide.Effects{}
			err := &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: fmt.Errorf("panic: %v", p)}
			k.Abort(c, err, time.Now(), e)
			d.carryOut(ctx, k, e)
		}
	}()
	for {
		*e = decide.Effects{}
		k.Advance(c, d.Moment, e)
		d.carryOut(ctx, k, e)
		if c.Next == decide.Over {
			return
		}
		out, ok := d.perform(ctx, k, c, with)
		if !ok {
			continue
		}
		*e = decide.Effects{}
		k.Done(c, out, d.Moment, e)
		d.carryOut(ctx, k, e)
		if c.Next == decide.Over {
			return
		}
	}
}

// perform makes the next call to DynamoDB that a call needs. ok is false if the call must be
// planned again.
func (d *Desks) perform(ctx *Bound, k *Desk, c *decide.Call, with *carrier) (out decide.Outcome, ok bool) {
	switch c.Next {
	case decide.Siblings:
		err := d.siblings(ctx, k)
		return decide.Outcome{Err: err}, err != nil
	case decide.Meet:
		image, err := d.meet(ctx, k, c.Choice.Shard)
		return decide.Outcome{Image: image, Err: err}, true
	}
	if c.Choice.Do == decide.Look {
		d.Observe(ctx, Event{Kind: Looked, Name: k.Name})
	}
	it, err := d.Store.Write(ctx, c.Write)
	if err != nil {
		k.Returned(c, store.KindOf(err) == store.Unknown)
		return d.explained(ctx, k, c, with, err)
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		if c.Takes {
			err = d.unread(ctx, c, err)
		}
		k.Returned(c, true)
		return decide.Outcome{Err: err}, true
	}
	d.observeAhead(ctx, c)
	return decide.Outcome{Held: true, Image: &b}, true
}

// explained finds out why the write of a call does not hold, and pauses if that helps: then it is
// sent again.
func (d *Desks) explained(ctx context.Context, k *Desk, c *decide.Call, with *carrier,
	cause error) (out decide.Outcome, ok bool) {
	if r, refused := errors.AsType[*store.Refused](cause); refused {
		if r.Old == nil {
			return out, true
		}
		b, err := table.DecodeShard(r.Old)
		if err != nil { // an answer, and the trouble of this bucket alone
			return decide.Outcome{Err: err}, true
		}
		if c.Charges {
			d.Observe(ctx, Event{Kind: Refused, Name: k.Name})
		}
		return decide.Outcome{Image: &b}, true
	}
	if !c.Last() && pause(ctx, cause, c.Sent, &with.throttled) {
		return out, false
	}
	b, err := d.explain(ctx, cause, c.Write, &with.mended)
	return decide.Outcome{Image: &b, Err: err}, true
}

// unread gives back the tokens that a group has taken from an item that turned out to be
// unreadable: a plain add checks only the numbers that it changes. It returns the result for the
// group.
func (d *Desks) unread(ctx context.Context, c *decide.Call, cause error) error {
	bounded := d.Bounded(context.WithoutCancel(ctx))
	defer bounded.End()
	w := c.Wants()
	err := d.settleNow(bounded, w.Name, c.Shard, table.Shard{}, waitqueue.Taking{}, table.Negative(w.Costs))
	if err != nil {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(cause, err)}
	}
	return cause
}

// With Options.Ahead, or Limit.Ahead, a process takes more with a charge than a request needs, and
// grants its next requests from the rest, without a call. See docs/hot-keys.md.

// Grant grants a request from tokens that this process has taken ahead, and from its idle slots,
// which it also returns, if both cover it. It makes no call.
func (d *Desks) Grant(ctx context.Context, k *Desk, w decide.Want) (h decide.Held, s *inflight.Lease, ok bool) {
	if slices.ContainsFunc(w.Costs, isSlots) {
		wants := []decide.Want{w}
		s, w = d.reuse(wants), wants[0]
		defer func() {
			if !ok {
				d.unused(s, false)
			}
		}()
	}
	if h, ok = k.Grant(w, d.Moment); ok && h.Renew {
		d.takeMore(ctx, k, w, h)
	}
	return h, s, ok
}

// takeMore takes more tokens ahead of the shard from which a request was granted. It is separate
// from Grant, which would otherwise allocate the state of its goroutine for each grant.
func (d *Desks) takeMore(ctx context.Context, k *Desk, w decide.Want, h decide.Held) {
	ctx = context.WithoutCancel(ctx)
	w.Costs = table.Costs(table.LimitsOf(h.Costs))
	shard := h.Image.State.Shard
	if !d.background.enter() {
		return
	}
	go func() {
		defer d.background.done()
		defer k.Renewed(shard)
		within := d.Bounded(ctx)
		defer within.End()
		tries := &Attempt{}
		d.prepare(within, tries)
		tries.Want, tries.Renews = w, true
		_ = Guarded(func() error {
			var effects decide.Effects
			k.Renew(&tries.Waiter, shard, d.Moment, &effects)
			d.carryOut(within, k, &effects)
			a := d.await(within, k, tries)
			if a.Err != nil || tries.Calls > 0 { // else another's write has renewed it
				d.Heard(ctx, w.Name, w.Name, a.Err)
			}
			if sent := tries.Calls; a.Result != decide.Granted && sent > 0 {
				d.Observe(within, Event{Kind: Ahead, Name: w.Name, Op: "take ahead", Err: a.Err, Writes: sent})
			}
			return nil
		})
	}()
}

// observeAhead reports the tokens that a charge has taken ahead, and the expired ones of earlier
// charges.
func (d *Desks) observeAhead(ctx context.Context, c *decide.Call) {
	e := Event{Kind: Ahead, Name: c.First().Want.Name}
	if e.Taken, e.Ended = c.Ahead(); c.Renews() {
		e.Writes = c.Sent
	}
	if e.Writes > 0 || e.Taken != nil || e.Ended != nil {
		d.Observe(ctx, e)
	}
}
