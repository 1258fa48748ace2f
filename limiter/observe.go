package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// begin returns when a call began, for the observer.
func (l *Limiter) begin() (at time.Time) {
	if l.opts.Observe != nil {
		at = time.Now()
	}
	return at
}

// observeAcquire reports the result of an acquire to the observer, and a denial to the table, with its next write.
func (l *Limiter) observeAcquire(ctx context.Context, req Request, begin time.Time, tries *desk.Attempt, lease *Lease,
	err error) {
	if denied, ok := errors.AsType[*LimitError](err); ok {
		l.desks.Denied(denied.name())
	}
	if l.opts.Observe == nil {
		return
	}
	e := Event{Kind: EventAcquire, Entity: req.Entity, Resource: req.Resource, Costs: req.Costs, Also: req.Also, Err: err,
		Writes: tries.Calls, Ahead: err == nil && tries.Held, Elapsed: time.Since(begin)}
	if lease != nil {
		e.Overdrawn = lease.Overdrawn()
		lease.observed = err == nil
		if lease.cause == ErrBypassed {
			e.Costs = nil
		}
		for i, p := range req.Also {
			if a := lease.of(p.name()); len(a) > 0 && a[0].cause == ErrBypassed {
				e.Also = slices.Clone(e.Also)
				e.Also[i].Costs = nil
			}
		}
	}
	if lease != nil && lease.cause != nil && lease.cause != ErrBypassed {
		e.Err, e.Policy = lease.cause, PolicyAllow
		if !lease.nothing() {
			e.Policy = PolicyLocal
		}
	}
	l.opts.Observe(ctx, e)
}

// observeSettled reports the result of a commit or a rollback, from the dues of every item of every level.
func (le *Lease) observeSettled(ctx context.Context, op string, begin time.Time, dues [][][]table.Cost, err error) {
	if le.limiter.opts.Observe == nil || le.nothing() {
		return
	}
	e := Event{Kind: EventCommit, Entity: le.name.Entity, Resource: le.name.Resource, Err: err,
		Elapsed: time.Since(begin)}
	if op == "rollback" {
		e.Kind = EventRollback
	}
	for level, a := range le.levels() {
		var differ Costs
		for i, costs := range dues[level] {
			if a.items[i].local != nil {
				continue
			}
			if a.items[i].wrote {
				e.Writes++
			}
			if le.observed || err != nil {
				differ = differ.plus(slices.DeleteFunc(slices.Clone(costs), isSlots))
			}
		}
		p := le.request.also(a.name)
		switch {
		case level == 0:
			e.Costs = differ.plus(table.Negative(le.slotsAsked(a, le.request.Costs)))
		case p != nil:
			differ = differ.plus(table.Negative(le.slotsAsked(a, p.Costs)))
			e.Also = append(e.Also, Part{Entity: p.Entity, Resource: p.Resource, Costs: differ})
		}
	}
	le.limiter.opts.Observe(ctx, e)
}

// slotsAsked returns the slots that a lease was for on one level, whether this lease has taken them or an earlier
// one of this process, and whether they go back to the table or stay for the next.
func (le *Lease) slotsAsked(at *Lease, asked Costs) (all []table.Cost) {
	if le.slots == nil || !le.observed {
		return nil
	}
	for _, l := range at.settles() {
		if l.Returns() {
			all = append(all, table.Cost{Limit: l, Milli: asked[l.Name] * bucket.Milli})
		}
	}
	return all
}

// happened passes an event of a desk to the observer.
func (l *Limiter) happened(ctx context.Context, d desk.Event) {
	if l.opts.Observe == nil {
		return
	}
	e := Event{Entity: d.Name.Entity, Resource: d.Name.Resource, Err: d.Err, Writes: d.Writes, Elapsed: d.Elapsed,
		Open: d.Open, Taken: Costs(nil).plus(d.Taken), Ended: Costs(nil).plus(d.Ended)}
	if d.Op != "" && d.Err != nil {
		e.Err = outcome(d.Op, d.Name, d.Err)
	}
	switch d.Kind {
	case desk.Refused:
		e.Kind = EventRefused
	case desk.Looked:
		e.Kind = EventLook
	case desk.Upkeep:
		e.Kind = EventUpkeep
	case desk.Ahead:
		if e.Kind = EventAhead; e.Writes == 0 && e.Err == nil && e.Taken == nil && e.Ended == nil {
			return
		}
	case desk.Yielded:
		e.Kind = EventYield
		for _, lim := range d.Limits {
			e.Limits = append(e.Limits, public(lim))
		}
	case desk.Reshaped:
		e.Kind, e.Shards = EventSplit, d.After
		if d.After < d.Before {
			e.Kind = EventMerge
		}
	case desk.Settled:
		if e.Kind = EventSettle; d.Err != nil { // else the commit has reported them
			e.Costs = e.Costs.plus(d.Costs)
		}
	case desk.Lost:
		e.Kind = EventLost
	case desk.Switched:
		e.Kind = EventBreaker
	case desk.Returned:
		if e.Kind = EventRollback; len(d.Errs) > 0 {
			e.Err = settleError("rollback", d.Name, d.Errs)
			e.Costs = e.Costs.plus(slices.DeleteFunc(slices.Clone(d.Costs), isSlots))
		}
	}
	l.opts.Observe(ctx, e)
}

// watched is a store that reports throttled calls to the observer.
type watched struct {
	store.Store
	observe func(context.Context, Event)
}

func (w watched) report(ctx context.Context, key item.Key, err error) {
	if store.KindOf(err) == store.Throttled {
		_, entity, resource, _, _ := layout.ParseBucketPK(key.PK)
		w.observe(ctx, Event{Kind: EventThrottled, Entity: entity, Resource: resource, Err: err})
	}
}

// Write implements [store.Store].
func (w watched) Write(ctx context.Context, write item.Write) (item.Item, error) {
	it, err := w.Store.Write(ctx, write)
	w.report(ctx, write.Target(), err)
	return it, err
}

// Transact implements [store.Store].
func (w watched) Transact(ctx context.Context, token string, writes []item.Write) error {
	err := w.Store.Transact(ctx, token, writes)
	w.report(ctx, writes[0].Target(), err)
	return err
}

// Read implements [store.Store].
func (w watched) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	items, err := w.Store.Read(ctx, consistent, keys...)
	if len(keys) > 0 {
		w.report(ctx, keys[0], err)
	}
	return items, err
}
