package limiter

import (
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// Commit ends the lease of work that is done. It writes what Settle has recorded: the difference to
// the tokens taken, in one write for each item charged, or together with another write (see
// Options.SettleWithin). Without a difference it makes no call. It blocks until the write is
// answered, bounded by ctx and Options.Timeout; Rollback and Do settle even if ctx is done. A
// failure is a *SettleError, which says whether Commit may be called again; nothing is settled
// twice. A bucket that has been deleted needs no settling. On a lease that has ended Commit returns
// ErrLeaseClosed. With Options.SettleWithin it hands the difference over, makes no call, and
// returns nil.
func (le *Lease) Commit(ctx context.Context) error {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.closed {
		return le.errClosed("commit")
	}
	return le.end(ctx, "commit", (*charged).pay)
}

// Rollback ends the lease of work that failed. It gives everything that the lease has taken back to
// the items that paid it. But costs recorded by Settle are real: it writes those instead, as Commit
// does. On a lease that has ended it does nothing and returns nil, so it can be deferred before the
// work begins. Callers that have given up call it too, so it goes on when ctx is done, bounded by
// Options.Timeout. It fails like Commit.
func (le *Lease) Rollback(ctx context.Context) error {
	le.mu.Lock()
	defer le.mu.Unlock()
	switch {
	case le.closed:
		return nil
	case le.kept:
		return le.end(context.WithoutCancel(ctx), "commit", (*charged).pay)
	}
	return le.end(context.WithoutCancel(ctx), "rollback", (*charged).back)
}

// back makes all items due to give back everything.
func (a *charged) back() {
	for i := range a.items {
		a.items[i].due = table.Negative(a.items[i].Taken)
	}
}

// pay makes the difference between settled and taken costs due. If more is due, the first item
// pays. If less, the items that paid get it back, each at most its own payment.
func (a *charged) pay() {
	for i := range a.items {
		a.items[i].due = nil
	}
	for _, limit := range a.settles() {
		actual, said := a.actual[limit.Name]
		if !said {
			continue
		}
		left := bucket.SubSat(actual*bucket.Milli, a.held(limit.Name))
		for i, it := range a.items {
			if part := max(left, -it.Of(limit.Name)); part != 0 {
				a.items[i].due = append(a.items[i].due, table.Cost{Limit: limit, Milli: part})
				left -= part
			}
		}
	}
}

// settle writes one adjustment for each item, all at the same time: one after the other, a lease on
// many shards would exceed the time of one call. A written adjustment counts as taken, so that a
// repeated call does not settle it twice.
func (l *Limiter) settle(ctx context.Context, op string, a *charged) error {
	bounded := l.desks.Bounded(ctx)
	defer bounded.End()
	var errs []error
	for i, err := range desk.InParallel(len(a.items), func(i int) error {
		return l.settleItem(bounded, a, &a.items[i])
	}) {
		if err == nil {
			it := &a.items[i]
			it.Taken = table.Plus(it.Taken, it.due[:len(it.due)-len(it.slots)])
			it.slots = nil
			continue
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return settleError(op, a.name, errs)
	}
	return nil
}

func (l *Limiter) settleItem(ctx context.Context, a *charged, it *leaseItem) (err error) {
	if it.local == nil {
		taken := waitqueue.TakingOf(a.image(), a.worked, a.turn)
		it.wrote, err = l.desks.Settle(ctx, a.name, it.Shard, a.image(), taken, it.due)
		return err
	}
	now := l.now()
	costs := desk.Pinned(it.due, table.Shard{State: *it.local}, now)
	if costs = slices.DeleteFunc(costs, func(c table.Cost) bool { return c.Milli == 0 }); len(costs) > 0 {
		l.locals.Adjust(a.name, costs, now)
	}
	return nil
}

// end settles the lease by the amounts due of each item, unless the Limiter is closed.
func (le *Lease) end(ctx context.Context, op string, due func(*charged)) error {
	if !le.limiter.desks.Enter() {
		return &SettleError{op, le.name.Entity, le.name.Resource, closed(op, le.name)}
	}
	defer le.limiter.desks.Leave()
	return le.settleAll(ctx, op, due)
}

// settleAll settles the lease on every level, and closes it, unless that can be repeated.
func (le *Lease) settleAll(ctx context.Context, op string, due func(*charged)) (err error) {
	begin, all := le.limiter.begin(), le.levels()
	released := le.limiter.desks.Release(le.slots)
	for _, a := range all {
		due(a)
		for i := range a.items {
			it := &a.items[i]
			it.slots = append(it.slots, released[it.Key]...)
			it.due = append(it.due, it.slots...)
			delete(released, it.Key)
		}
	}
	le.limiter.desks.GiveSlots(released) // taken over, with tokens of another shard
	failed := slices.DeleteFunc(desk.InParallel(len(all), func(i int) error {
		return le.limiter.settle(ctx, op, all[i])
	}), func(err error) bool { return err == nil })
	if len(failed) == 1 {
		err = failed[0]
	} else if len(failed) > 1 {
		err = &SettleError{op, le.name.Entity, le.name.Resource, errors.Join(failed...)}
	}
	le.closed = err == nil || errors.Is(err, ErrUnknown)
	le.observeSettled(ctx, op, begin, err)
	return err
}
