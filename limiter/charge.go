package limiter

import (
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Charge takes more for the same request now, or is denied, like an Acquire with these costs. It is
// for work whose end is not known, such as a stream. The tokens belong to the lease: Rollback gives
// them back too, and they count on top of earlier settlements. Charge charges the bucket that
// Settle settles, not the parts of [Request.Also]. It blocks and fails like [Limiter.Acquire]; if
// it fails, the lease stays as it was. If the lease has ended in the meantime, the tokens are given
// back, and the error is ErrLeaseClosed.
func (le *Lease) Charge(ctx context.Context, more Costs) error {
	le.mu.Lock()
	req, closed, nothing := le.request, le.closed, le.nothing()
	le.mu.Unlock()
	if closed {
		return le.errClosed("charge")
	}
	if nothing {
		return nil
	}
	if limit := le.slotsIn(more); limit != "" {
		return validate.Invalid("charge limit", limit, "no in-flight limit: slots are taken by Acquire")
	}
	req.Costs, req.Also = more, nil
	extra, err := le.limiter.Acquire(ctx, req)
	if err != nil || extra.nothing() {
		return err
	}
	le.mu.Lock()
	defer le.mu.Unlock()
	if extra.slots != nil { // the limits have just changed
		return errors.Join(validate.Invalid("charge limits", validate.Plain("in flight"), "others"), extra.Rollback(ctx))
	}
	if le.closed {
		return errors.Join(le.errClosed("charge"), extra.Rollback(ctx))
	}
	turn := le.limiter.desks.Waiting.Turn()
	for _, a := range extra.levels() {
		all := le.levels()
		if i := slices.IndexFunc(all, func(o *charged) bool { return o.name == a.name }); i >= 0 {
			all[i].join(a, more, turn)
		} else { // it cascades since
			le.above = slices.Insert(le.above, len(le.of(le.name))-1, a)
		}
	}
	return nil
}

// mostCost bounds the settled cost of a limit: the most that a request can cost, and as much again
// that was charged.
const mostCost = 2 * MaxTokens

// join takes over another charge of the same level, which ended before a turn.
func (a *charged) join(extra *charged, costs Costs, turn int64) {
	a.part(extra.image().State)
	for _, it := range extra.items {
		i := slices.IndexFunc(a.items, func(old leaseItem) bool { return old.Key == it.Key }) // local ones have none
		if i < 0 {
			a.items = append(a.items, it)
			continue
		}
		a.items[i].Taken = table.Plus(a.items[i].Taken, it.Taken)
	}
	for _, limit := range extra.settles() {
		if !hasLimit(a.settles(), limit.Name) {
			a.limits = append(a.limits, limit)
		}
	}
	for limit, n := range costs {
		if said, ok := a.actual[limit]; ok {
			a.actual[limit] = min(said+n, mostCost)
		}
	}
	if a.status, a.counts, a.ahead = extra.status, extra.counts, extra.ahead; extra.cause == nil {
		a.after, a.worked, a.turn = extra.after, extra.worked, turn
	}
}

// part sets apart the costs of quotas that have entered another period since. A lease took 2 on
// Monday and takes 1 on Tuesday: it has cost 3, and 1 can be given back.
func (a *charged) part(now bucket.State) {
	before := a.image().State
	for _, sl := range now.Slots {
		j := before.Index(sl.Name)
		if !sl.Renews() || j < 0 {
			continue
		}
		if was := before.Slots[j]; was.End == sl.End && was.Resets == sl.Resets {
			continue
		}
		for i, it := range a.items {
			if c, ok := table.Find(it.Taken, sl.Name); ok {
				a.gone = table.Plus(a.gone, []table.Cost{c})
				a.items[i].Taken = table.Plus(it.Taken, table.Negative([]table.Cost{c}))
			}
		}
	}
}
