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

// A settlement rides on the next charge of its shard. With Options.SettleWithin no caller waits for it, and it goes
// alone once it has waited for that long. Without, the caller waits, and it waits only while a write of the shard is
// on its way: those that wait for the same write go together. It goes at once where requests wait for the bucket, if
// it gives slots back, for which others may wait, or if as many desks are in use as are remembered.

// errand is what belongs to a difference here.
type errand struct {
	taken waitqueue.Taking
	image table.Shard     // of the lease, for a bucket that this process does not know any more
	done  chan error      // gets the result; it has room for one. Nil: no caller waits for it
	ctx   context.Context // of the caller that waits
}

func errandOf(d *decide.Difference) errand { return d.Of.(errand) }

// join settles with the next write of the shard, if one is on its way; else, and if that takes too long, by itself.
// It reports whether it has written by itself.
func (d *Desks) join(ctx context.Context, n decide.Name, p decide.Part, image table.Shard, taken waitqueue.Taking,
	costs []table.Cost) (wrote bool, err error) {
	if k := d.Peek(n); k != nil {
		diff := &decide.Difference{Costs: costs, Waits: true, Of: errand{taken, image, make(chan error, 1), ctx}}
		if !k.Join(p.Shard, diff, d.Moment()) {
			defer d.settleNext(k, p.Shard)
		} else if rode, err := d.ridden(ctx, k, p.Shard, diff); rode {
			return false, err
		}
	}
	return true, d.settling(n, p, image, costs).run(ctx, taken)
}

// ridden waits until a difference is settled, and reports whether it is or may be. If it has to wait for too long,
// it is the caller's again.
func (d *Desks) ridden(ctx context.Context, k *Desk, shard int, diff *decide.Difference) (bool, error) {
	late := time.NewTimer(decide.Patience(d.Late()))
	defer late.Stop()
	for {
		select {
		case err := <-errandOf(diff).done:
			return true, err
		case <-late.C:
			if k.TakeBack(shard, diff) {
				return false, nil
			}
		case <-ctx.Done():
			kind := store.Unknown
			if k.TakeBack(shard, diff) {
				kind = store.Unavailable
			}
			return true, left(ctx, kind).Err
		}
	}
}

// settleNext settles what has joined while a write settled alone.
func (d *Desks) settleNext(k *Desk, shard int) {
	if all := k.Settled(shard, d.Moment()); len(all) > 0 {
		d.background.Go(func() { d.settleJoined(k, shard, all) })
	}
}

func (d *Desks) settleJoined(k *Desk, shard int, all []*decide.Difference) {
	defer d.settleNext(k, shard)
	bounded := d.Bounded(context.WithoutCancel(errandOf(all[0]).ctx))
	defer bounded.End()
	_ = d.settleDue(bounded, k, shard, all)
}

// keep takes a difference in, until it is settled.
func (d *Desks) keep(n decide.Name, shard int, image table.Shard, taken waitqueue.Taking, costs []table.Cost) {
	k := d.Pin(n)
	if k.HandOver(shard, &decide.Difference{Costs: costs, At: d.Moment().Mono, Of: errand{taken: taken, image: image}}) {
		d.minds(k, shard, d.SettleWithin)
	} else {
		d.Unpin(n)
	}
}

// minds settles after a while the differences due on a shard by then. The desk is pinned until none is.
func (d *Desks) minds(k *Desk, shard int, after time.Duration) {
	d.later(after, func() {
		all, more := k.Due(shard, d.Moment(), d.SettleWithin.Milliseconds())
		if more > 0 {
			d.minds(k, shard, time.Duration(more)*time.Millisecond)
		} else {
			defer d.Unpin(k.Name)
		}
		bounded := d.Bounded(context.Background())
		defer bounded.End()
		_ = d.settleDue(bounded, k, shard, all)
	})
}

// awaited reports whether requests wait for the bucket, asleep or in line: a write wakes them.
func (d *Desks) awaited(n decide.Name) bool { return d.Sleepers.Any(n) || d.Lines.AnyAt(n) }

// settleDue settles differences by themselves. Unwritten ones are handed over once more, or their caller's again.
func (d *Desks) settleDue(ctx context.Context, k *Desk, shard int, all []*decide.Difference) (failed error) {
	for len(all) > 0 {
		var batch []*decide.Difference
		var costs []table.Cost
		batch, costs, all = together(all)
		var err error
		if len(costs) > 0 {
			s := d.settling(k.Name, decide.Part{Key: d.Key(k.Name, shard), Shard: shard}, errandOf(batch[0]).image, costs)
			err = Guarded(func() error { return s.run(ctx, waitqueue.Taking{}) })
		}
		if err == nil {
			d.wakeBehind(k, batch, k.Seen(shard).Image)
		}
		e := Event{Kind: Settled, Name: k.Name, Op: "settle", Costs: costs, Writes: 1, Err: err}
		switch unwritten := store.Passes(err) || store.KindOf(err) == store.Unavailable; {
		case finish(batch, err):
			e.Err = nil // the callers have it
		case unwritten && !d.closed():
			d.keep(k.Name, shard, errandOf(batch[0]).image, waitqueue.Taking{}, costs)
			continue
		}
		if failed = errors.Join(failed, e.Err); len(costs) > 0 {
			d.observe(ctx, e)
		}
	}
	return failed
}

// finish gives the callers that wait for differences the result, and reports whether there are any.
func finish(all []*decide.Difference, err error) (waited bool) {
	for _, diff := range all {
		if waited = diff.Waits; waited {
			errandOf(diff).done <- err
		}
	}
	return waited
}

// wakeBehind wakes requests that sleep behind what differences gave back; the image has them.
func (d *Desks) wakeBehind(k *Desk, all []*decide.Difference, image table.Shard) {
	for _, diff := range all {
		d.Sleepers.Wake(waitqueue.Return{Name: k.Name, Taken: errandOf(diff).taken, Costs: diff.Costs,
			Given: waitqueue.MomentOf(image)})
	}
	d.Lines.Wake(k.Name)
}

// rode is the event of differences that rode with a charge.
func rode(n decide.Name, s decide.Settlement) Event {
	e := Event{Kind: Settled, Name: n, Op: "settle", Err: lost(s)}
	for _, diff := range s.All {
		e.Costs = append(e.Costs, diff.Costs...)
	}
	return e
}

// lost is the error of differences that rode with a charge that has no answer.
func lost(s decide.Settlement) error {
	if s.Image == nil {
		return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errNoAnswer}
	}
	return nil
}

var errNoAnswer = errors.New("the charge that it went with has no answer")

// together returns differences, from the first on, that one write can settle, and the sum of their costs: it names
// a limit once, so in one period. The others are left.
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
