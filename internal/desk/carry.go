package desk

import (
	"context"
	"errors"
	"fmt"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// What the steps of a bucket decide is carried out here. Every call has a goroutine of its own, which
// does not end when a caller leaves: what it then takes for that caller is given back.

// carryOut does what a step has decided. Events come first. If an observer panics, all callers are still woken.
func (d *Desks) carryOut(ctx context.Context, k *Desk, e *decide.Effects) {
	defer d.goOn(ctx, k, e)
	for _, w := range e.Yielded {
		d.observe(ctx, Event{Kind: Yielded, Name: w.Name, Limits: table.LimitsOf(w.Costs)})
	}
	for _, s := range e.Settled {
		d.rode(ctx, k.Name, s)
	}
}

// goOn starts what a step has decided, and wakes the callers of answered waiters.
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

// carrier is what carrying out a call needs.
type carrier struct {
	bound     Bound
	effects   decide.Effects
	throttled int  // writes that were throttled
	mended    bool // a limit that is half written has explained a write that was rejected
}

func of(w *decide.Waiter) *Attempt { return w.Handle.(*Attempt) }

// carry carries a call out, until it has landed. A panic of the caller's DynamoDB client, clock or
// observer ends it with an error for all that ride with it.
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

// perform does what a call needs next. ok is false if it is to be planned again.
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
		d.observe(ctx, Event{Kind: Looked, Name: k.Name})
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

// meet reads a shard of which nothing is known, and shard 0 with it, which knows how many there are. What it
// brings may deny, so it is consistent where a denial may rest on nothing older than the request.
func (d *Desks) meet(ctx context.Context, k *Desk, shard int) (*table.Shard, error) {
	keys := []item.Key{d.Key(k.Name, shard)}
	if shard > 0 {
		keys = append(keys, d.Key(k.Name, 0))
	}
	items, err := d.Store.Read(ctx, d.Settings.DenyFor == 0, keys...)
	if err != nil {
		return nil, err
	}
	if zero, err := imageOf(items[len(keys)-1]); shard > 0 && zero != nil && err == nil {
		k.See(*zero, d.clock(), decide.Unsent)
	}
	return imageOf(items[0])
}

// Unmet reports whether nothing is known of a bucket, so that a read of it saves a write.
func (d *Desks) Unmet(n decide.Name) bool {
	k := d.Peek(n)
	return k == nil || k.Unmet()
}

// Met remembers what an eventually consistent read has brought of the first shard of a bucket, nil if that
// is not there.
func (d *Desks) Met(n decide.Name, it item.Item) {
	if image, err := imageOf(it); err == nil { // else a charge will find out
		d.Of(n).Met(image, d.clock())
	}
}

// Key returns the key of a shard.
func (d *Desks) Key(n decide.Name, shard int) item.Key {
	return layout.BucketKey(d.namespace, n.Entity, n.Resource, shard)
}

// imageOf returns the image of an item, nil if that is not there.
func imageOf(it item.Item) (*table.Shard, error) {
	if it == nil {
		return nil, nil
	}
	b, err := table.DecodeShard(it)
	return &b, err
}

// explained finds out why the write of a call does not hold, and pauses where that helps: it is sent again
// then.
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
			d.observe(ctx, Event{Kind: Refused, Name: k.Name})
		}
		return decide.Outcome{Image: &b}, true
	}
	if !c.Last() && pause(ctx, cause, c.Sent, &with.throttled) {
		return out, false
	}
	b, err := d.explain(ctx, cause, c.Write, &with.mended)
	return decide.Outcome{Image: &b, Err: err}, true
}

// unread gives back what a group has taken from an item that turned out to be unreadable: a plain
// add looks only at what it takes from. It returns the result for the group.
func (d *Desks) unread(ctx context.Context, c *decide.Call, cause error) error {
	bounded := d.Bounded(context.WithoutCancel(ctx))
	defer bounded.End()
	w := c.Wants()
	_, err := d.Settle(bounded, w.Name, c.Shard, table.Shard{}, waitqueue.Taking{}, table.Negative(w.Costs), false)
	if err != nil {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(cause, err)}
	}
	return cause
}

// dropped gives back the grants of callers that have left, in the background.
func (d *Desks) dropped(ctx context.Context, grants ...decide.Grant) {
	ctx = context.WithoutCancel(ctx)
	d.background.Go(func() { d.giveBack(ctx, grants) }) // which reports the result
}

// DynamoDB slows us down where a table or a partition is written to more than it may be.
// That passes within fractions of a second, or it lasts; then trying on makes it worse.

const (
	// ThrottleRetries is how often a write is sent again for an acquire because it was
	// throttled.
	ThrottleRetries = 3
	// ThrottlePause is the longest pause before the first of them; it doubles.
	ThrottlePause = 25 * time.Millisecond
	// contentionPause is the base of the jittered pause after a transaction held the item.
	contentionPause = 2 * time.Millisecond
)

// pause waits until a write that was throttled, or met a transaction, may be sent again, and reports whether it
// may: not after other errors, not for ever, and not when ctx has ended. It counts in throttled.
func pause(ctx context.Context, err error, sent int, throttled *int) bool {
	var d time.Duration
	switch store.KindOf(err) {
	case store.Conflict:
		d = store.Jitter(sent, 5*contentionPause, 100*contentionPause)
	case store.Throttled:
		if *throttled++; *throttled > ThrottleRetries {
			return false
		}
		d = store.Jitter(*throttled-1, ThrottlePause, 4*ThrottlePause)
	default:
		return false
	}
	return smithytime.SleepWithContext(ctx, d) == nil
}
