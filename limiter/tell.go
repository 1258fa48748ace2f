package limiter

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// tell passes an event to the observer, if there is one.
func (l *Limiter) tell(ctx context.Context, e Event) {
	if l.opts.Observe != nil {
		l.opts.Observe(ctx, e)
	}
}

// begin returns when a call began, for the observer.
func (l *Limiter) begin() (at time.Time) {
	if l.opts.Observe != nil {
		at = time.Now()
	}
	return at
}

// tellAcquire tells what came of an acquire.
func (l *Limiter) tellAcquire(ctx context.Context, req Request, begin time.Time, tries *attempt, lease *Lease,
	err error) {
	if l.opts.Observe == nil {
		return
	}
	e := Event{Kind: EventAcquire, Entity: req.Entity, Resource: req.Resource, Costs: req.Costs, Err: err,
		Writes: tries.Calls, Ahead: err == nil && tries.held, Elapsed: time.Since(begin)}
	if lease != nil {
		e.Overdrawn = lease.Overdrawn()
		lease.told = err == nil
		if lease.cause == ErrBypassed {
			e.Costs = nil
		}
	}
	if lease != nil && lease.cause != nil && lease.cause != ErrBypassed {
		e.Err, e.Policy = lease.cause, PolicyAllow
		if len(lease.items) > 0 {
			e.Policy = PolicyLocal
		}
	}
	l.opts.Observe(ctx, e)
}

// tellSettled tells what came of a commit or a rollback, from what was due of every
// item of every level.
func (le *Lease) tellSettled(ctx context.Context, op string, begin time.Time, dues [][][]table.Cost, err error) {
	if le.limiter.opts.Observe == nil || le.nothing() {
		return
	}
	e := Event{Kind: EventCommit, Entity: le.name.Entity, Resource: le.name.Resource, Err: err,
		Elapsed: time.Since(begin)}
	if op == "rollback" {
		e.Kind = EventRollback
	}
	for level, items := range dues {
		for i, costs := range items {
			if le.levels()[level].items[i].local {
				continue
			}
			if slices.ContainsFunc(costs, func(c table.Cost) bool { return c.Milli != 0 }) {
				e.Writes++
			}
			if level == 0 && (le.told || err != nil) {
				e.Costs = e.Costs.plus(slices.DeleteFunc(slices.Clone(costs), isSlots))
			}
		}
	}
	e.Costs = e.Costs.plus(negative(le.slotsAsked()))
	le.limiter.opts.Observe(ctx, e)
}

// slotsAsked returns the slots that the lease was for, whoever has taken them: this one, or an earlier
// one of this process, and whether they go back to the table or stay for the next.
func (le *Lease) slotsAsked() (all []table.Cost) {
	if le.slots == nil || !le.told {
		return nil
	}
	for _, l := range le.settles() {
		if l.Lends() {
			all = append(all, table.Cost{Limit: l, Milli: le.request.Costs[l.Name] * bucket.Milli})
		}
	}
	return all
}

// tellAhead tells what a charge has taken ahead, and what has ended of earlier charges.
func (l *Limiter) tellAhead(ctx context.Context, c *decide.Call) {
	if l.opts.Observe == nil {
		return
	}
	taken, ended := c.Ahead()
	n := c.First().Want.Name
	e := Event{Kind: EventAhead, Entity: n.Entity, Resource: n.Resource,
		Taken: Costs(nil).plus(taken), Ended: Costs(nil).plus(ended)}
	if c.Renews() {
		e.Writes = c.Sent
	} else if e.Taken == nil && e.Ended == nil {
		return
	}
	l.opts.Observe(ctx, e)
}

// tellYield tells by which limits a bucket is gone by from now on.
func (l *Limiter) tellYield(ctx context.Context, w decide.Want) {
	e := Event{Kind: EventYield, Entity: w.Name.Entity, Resource: w.Name.Resource}
	for _, c := range w.Costs {
		e.Limits = append(e.Limits, public(c.Limit))
	}
	l.tell(ctx, e)
}
