package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// observeAcquire reports the result of an acquire to the observer, and a denial to the table, with its next write.
func (l *Limiter) observeAcquire(ctx context.Context, req Request, begin time.Time, writes int, lease *Lease,
	err error) {
	if denied, ok := errors.AsType[*LimitError](err); ok {
		l.desks.Denied(denied.name())
	}
	if l.opts.Observe == nil {
		return
	}
	e := Event{Kind: EventAcquire, Entity: req.Entity, Resource: req.Resource, Costs: req.Costs, Also: req.Also, Err: err,
		Writes: writes, Elapsed: time.Since(begin)}
	if lease != nil {
		e.Overdrawn, e.Ahead = lease.Overdrawn(), err == nil && lease.wasHeld()
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

// observeSettled reports the result of a commit or a rollback, by the dues of every item of every level.
func (le *Lease) observeSettled(ctx context.Context, op string, begin time.Time, err error) {
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
		for _, it := range a.items {
			if it.local != nil {
				continue
			}
			if it.wrote {
				e.Writes++
			}
			if le.observed || err != nil {
				differ = differ.plus(slices.DeleteFunc(slices.Clone(it.due), isSlots))
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
func (le *Lease) slotsAsked(at *charged, asked Costs) (all []table.Cost) {
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
