package limiter

import (
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Charge takes more for the same request now, or is denied, like an Acquire with these
// costs. It is for work whose end is not known, such as a stream. What it takes belongs to the
// lease: Rollback gives it back too, and it counts on top of earlier settlements. It is
// charged where Settle settles, not to parts of [Request.Also]. It blocks and fails like
// [Limiter.Acquire]. If it fails, the lease stays as it was. If the lease has ended meanwhile, the
// tokens are given back, and the error is ErrLeaseClosed.
func (le *Lease) Charge(ctx context.Context, more Costs) error {
	le.mu.Lock()
	req, closed, charged := le.request, le.closed, !le.nothing()
	le.mu.Unlock()
	if closed {
		return le.errClosed("charge")
	}
	if !charged {
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
	le.joinLevels(extra, more)
	return nil
}

// mostCost bounds what a lease settles of a limit: what a request can cost, and as
// much again that was charged.
const mostCost = 2 * MaxTokens

// join takes over what another lease of the same entity and resource has taken.
func (le *Lease) join(extra *Lease, costs Costs) {
	le.part(extra.image().State)
	for _, it := range extra.items {
		i := slices.IndexFunc(le.items, func(old leaseItem) bool { return old.Key == it.Key }) // local ones have none
		if i < 0 {
			le.items = append(le.items, it)
			continue
		}
		le.items[i].Taken = table.Plus(le.items[i].Taken, it.Taken)
	}
	for _, limit := range extra.settles() {
		if !hasLimit(le.settles(), limit.Name) {
			le.limits = append(le.limits, limit)
		}
	}
	for limit, n := range costs {
		if said, ok := le.actual[limit]; ok {
			le.actual[limit] = min(said+n, mostCost)
		}
	}
	if le.status, le.counts, le.ahead = extra.status, extra.counts, extra.ahead; extra.Charged() {
		le.after, le.worked, le.turn = extra.after, extra.worked, le.limiter.desks.Waiting.Turn()
	}
}

// part sets apart the costs of quotas that have entered another period since. A lease took 2 on
// Monday and takes 1 on Tuesday: it has cost 3, and 1 can be given back.
func (le *Lease) part(now bucket.State) {
	before := le.image().State
	for _, sl := range now.Slots {
		j := before.Index(sl.Name)
		if !sl.Renews() || j < 0 {
			continue
		}
		if was := before.Slots[j]; was.End == sl.End && was.Resets == sl.Resets {
			continue
		}
		for i, it := range le.items {
			if c, ok := table.Find(it.Taken, sl.Name); ok {
				le.gone = table.Plus(le.gone, []table.Cost{c})
				le.items[i].Taken = table.Plus(it.Taken, table.Negative([]table.Cost{c}))
			}
		}
	}
}

// joinLevels takes over what another lease has taken, on every level.
func (le *Lease) joinLevels(extra *Lease, costs Costs) {
	le.join(extra, costs)
	for _, more := range extra.above {
		i := slices.IndexFunc(le.above, func(a *Lease) bool { return a.name == more.name })
		if i < 0 { // it cascades since
			le.above = slices.Insert(le.above, len(le.of(le.name))-1, more)
			continue
		}
		le.above[i].join(more, costs)
	}
}
