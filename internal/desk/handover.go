package desk

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// A settlement goes with the next charge of its shard, or alone. With Options.SettleWithin it waits
// up to that time for a charge, and its caller does not wait. Without, it is due at once, and its
// caller waits for the result: it waits only for a write of the shard that is under way, and all
// that wait for the same write go together. It is also due at once if requests wait for the bucket,
// or if as many desks are in use as are remembered.

// errand is this package's part of a difference.
type errand struct {
	taken waitqueue.Taking
	image table.Shard     // of the lease, for a bucket that this process does not know any more
	done  chan settled    // gets the result; it has room for one. Nil: no caller waits for it
	ctx   context.Context // of a write that settles alone
}

// settled is the result of a settlement.
type settled struct {
	alone bool // by a write of its own
	err   error
}

func errandOf(d *decide.Difference) errand { return d.Of.(errand) }

// handOver settles costs, and reports whether it took a write of their own.
func (d *Desks) handOver(ctx context.Context, n decide.Name, shard int, e errand, costs []table.Cost) (bool, error) {
	within, waits := d.SettleWithin, d.SettleWithin == 0 || d.Waiting.Any(n) || d.full() // a write wakes those that wait
	if e.ctx = context.Background(); waits {
		if ctx.Err() != nil {
			return false, left(ctx, store.Unavailable)
		}
		within, e.done, e.ctx = 0, make(chan settled, 1), context.WithoutCancel(ctx)
	}
	k := d.Pin(n)
	defer d.Unpin(n)
	diff := d.keep(k, shard, within, e, costs)
	if !waits {
		return false, nil
	}
	select {
	case s := <-e.done:
		return s.alone, s.err
	case <-d.within(ctx).caller.Done():
		kind := store.Unknown
		if k.TakeBack(shard, diff) {
			kind = store.Unavailable
		}
		return false, left(ctx, kind)
	}
}

// keep hands a difference over to a desk that is pinned.
func (d *Desks) keep(k *Desk, shard int, within time.Duration, e errand, costs []table.Cost) *decide.Difference {
	now := d.timing()
	diff := &decide.Difference{Costs: costs, At: now.At.Add(within), Of: e}
	d.settleDues(k, k.HandOver(shard, diff, now))
	return diff
}

// settleDues settles dues in the background, and asks again when there may be more.
func (d *Desks) settleDues(k *Desk, dues decide.Dues) {
	if dues.Again > 0 {
		d.Pin(k.Name)
		d.later(dues.Again+1, func() { // requests that wait for the same write go first, and may take them along
			defer d.Unpin(k.Name)
			d.settleDues(k, k.Due(dues.Shard, false, d.timing()))
		})
	}
	if len(dues.All) > 0 {
		d.background.Go(func() {
			defer func() { d.settleDues(k, k.Due(dues.Shard, true, d.timing())) }()
			bounded := d.Bounded(errandOf(dues.All[0]).ctx)
			defer bounded.End()
			_ = Guarded(func() error { return d.settleAlone(bounded, k, dues) })
		})
	}
}

// settleAlone settles differences by themselves. Unwritten ones for which no caller waits are
// handed over once more.
func (d *Desks) settleAlone(ctx context.Context, k *Desk, dues decide.Dues) (failed error) {
	var events []Event
	for left := dues.All; len(left) > 0; {
		var all []*decide.Difference
		var costs []table.Cost
		all, costs, left = together(left)
		var err error
		if len(costs) > 0 {
			s := d.settling(k.Name, dues.Shard, errandOf(all[0]).image, costs)
			err = Guarded(func() error { return s.run(ctx, waitqueue.Taking{}) })
		}
		if err == nil {
			d.wakeBehind(k, all, k.Seen(dues.Shard).Image)
		}
		kept := finish(all, settled{len(all) == 1, err})
		if len(costs) == 0 || len(all) == 1 && len(kept) == 0 {
			continue
		}
		e := Event{Kind: Settled, Name: k.Name, Op: "settle", Costs: kept, Writes: 1, Err: err}
		if len(kept) == 0 {
			e.Err = nil // the callers have it
		} else if unwritten := store.Passes(err) || store.KindOf(err) == store.Unavailable; unwritten && !d.closed() {
			at := d.Pin(k.Name)
			d.keep(at, dues.Shard, d.SettleWithin, errand{image: errandOf(all[0]).image, ctx: context.Background()}, kept)
			d.Unpin(k.Name)
			continue
		}
		failed = errors.Join(failed, e.Err)
		events = append(events, e)
	}
	for _, e := range events { // an observer may panic
		d.Observe(ctx, e)
	}
	return failed
}

// finish passes the result to the callers that wait for differences, and returns the costs for
// which no caller waits.
func finish(all []*decide.Difference, s settled) (unwaited []table.Cost) {
	for _, diff := range all {
		if done := errandOf(diff).done; done != nil {
			done <- s
		} else {
			unwaited = table.Plus(unwaited, diff.Costs)
		}
	}
	return slices.DeleteFunc(unwaited, func(c table.Cost) bool { return c.Milli == 0 })
}

// wakeBehind wakes requests that wait for the tokens that differences gave back; the image includes
// them.
func (d *Desks) wakeBehind(k *Desk, all []*decide.Difference, image table.Shard) {
	returns := make([]waitqueue.Return, len(all))
	for i, diff := range all {
		returns[i] = waitqueue.Return{Taken: errandOf(diff).taken, Costs: diff.Costs, Given: waitqueue.MomentOf(image)}
	}
	d.Waiting.Wake(k.Name, returns...)
}

// rode reports differences that went with a charge, unless their callers have the result.
func (d *Desks) rode(ctx context.Context, n decide.Name, s decide.Settlement) {
	e := Event{Kind: Settled, Name: n, Op: "settle", Err: lost(s)}
	for _, diff := range s.All {
		if errandOf(diff).done == nil {
			e.Costs = append(e.Costs, diff.Costs...)
		}
	}
	if e.Costs != nil {
		d.Observe(ctx, e)
	}
}

// lost is the error of differences that went with a charge without an answer.
func lost(s decide.Settlement) error {
	if s.Image == nil {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errNoAnswer}
	}
	return nil
}

var errNoAnswer = errors.New("the charge that it went with has no answer")

// together returns differences, from the first on, that one write can settle, and the sum of their
// costs: it names a limit once, so in one period. The others are left.
func together(all []*decide.Difference) (batch []*decide.Difference, sum []table.Cost, left []*decide.Difference) {
	for _, diff := range all {
		if slices.ContainsFunc(diff.Costs, func(c table.Cost) bool {
			o, ok := table.Find(sum, c.Limit.Name)
			return ok && (o.End != c.End || o.Resets != c.Resets || o.Born != c.Born)
		}) {
			left = append(left, diff)
			continue
		}
		batch, sum = append(batch, diff), table.Plus(sum, diff.Costs)
	}
	return batch, slices.DeleteFunc(sum, func(c table.Cost) bool { return c.Milli == 0 }), left
}

// Settle settles costs on the item that has paid a part of a grant, whose image after the charge is
// given; zero if that is not known. A bucket that no longer exists has nothing to settle, nor has a
// limit that the bucket no longer has. taken is when the tokens were taken that are given back:
// sleeping requests that were charged later are woken.
//
// Giving back is one update that holds whatever the state of the item. Taking more must account for
// the tokens that the bucket has gained since. Example: 8 of 10 are stored as of a minute ago, and
// it is full by now. An update that takes 5 leaves 3 as of a minute ago, which are 10 again with
// the next refill: the 5 are lost. So it is a charge by force, from the last image, planned again
// if that turns out to be old. If others keep changing the item, a plain update takes it anyway.
//
// It may go with other writes of the shard, see Options.SettleWithin; but slots, for which others
// may wait, go alone. Settle reports whether it has written by itself.
func (d *Desks) Settle(ctx context.Context, n decide.Name, shard int, image table.Shard, taken waitqueue.Taking,
	costs []table.Cost) (wrote bool, err error) {
	costs = d.unheld(n, shard, image, costs)
	switch {
	case len(costs) == 0:
		return false, nil
	case slices.ContainsFunc(costs, isSlots):
		return true, d.settling(n, shard, image, costs).run(ctx, taken)
	}
	return d.handOver(ctx, n, shard, errand{taken: taken, image: image}, costs)
}
