package desk

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// With Options.SettleWithin nobody waits for a settlement: it rides on the next charge of its shard, and goes
// alone once it has waited for that long.

// handOver hands a settlement over, and reports whether it does. It goes at once where requests wait for the
// bucket, if it gives slots back, for which others may wait, or if as many desks are in use as are remembered.
func (d *Desks) handOver(n decide.Name, shard int, taken queue.Taking, costs []table.Cost) bool {
	if d.SettleWithin == 0 || slices.ContainsFunc(costs, isSlots) || d.awaited(n) || d.full() {
		return false
	}
	d.keep(n, shard, taken, costs)
	return true
}

// keep takes a difference in, until it is settled.
func (d *Desks) keep(n decide.Name, shard int, taken queue.Taking, costs []table.Cost) {
	k := d.Pin(n)
	if k.HandOver(shard, &decide.Difference{Costs: costs, At: d.Moment().Mono, Taken: taken}) {
		d.minds(k, shard, d.SettleWithin)
	} else {
		d.Unpin(n)
	}
}

// minds settles after a while what is due on a shard by then. The desk is pinned until nothing is.
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

// awaited reports whether requests wait for the bucket, asleep or in line: they are woken by what is written.
func (d *Desks) awaited(n decide.Name) bool { return d.Sleepers.Any(n) || d.Lines.AnyAt(n) }

// settleDue settles differences by themselves. What was not written is handed over once more.
func (d *Desks) settleDue(ctx context.Context, k *Desk, shard int, all []*decide.Difference) (failed error) {
	for _, costs := range sums(all) {
		s := d.settling(k.Name, decide.Part{Key: d.Key(k.Name, shard), Shard: shard}, table.Shard{}, costs)
		var err error
		if p := Guarded(func() { err = s.run(ctx, queue.Taking{}) }); p != nil {
			err = p
		}
		unwritten := store.Passes(err) || store.KindOf(err) == store.Unavailable
		if unwritten && !d.closed() {
			d.keep(k.Name, shard, queue.Taking{}, costs)
			continue
		}
		failed = errors.Join(failed, err)
		d.observe(ctx, Event{Kind: Settled, Name: k.Name, Op: "settle", Costs: costs, Writes: 1, Err: err})
	}
	if failed == nil {
		d.wakeBehind(k, all, k.Seen(shard).Image)
	}
	return failed
}

// wakeBehind wakes requests that sleep behind what differences gave back; the image has them.
func (d *Desks) wakeBehind(k *Desk, all []*decide.Difference, image table.Shard) {
	for _, diff := range all {
		d.Sleepers.Wake(queue.Return{Name: k.Name, Taken: diff.Taken.(queue.Taking), Costs: diff.Costs,
			Given: queue.MomentOf(image)})
	}
	d.Lines.Wake(k.Name)
}

// rode is the event of differences that rode with a charge.
func rode(n decide.Name, s decide.Settlement) Event {
	e := Event{Kind: Settled, Name: n, Op: "settle"}
	for _, diff := range s.All {
		e.Costs = append(e.Costs, diff.Costs...)
	}
	if s.Image == nil {
		e.Err = &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errNoAnswer}
	}
	return e
}

var errNoAnswer = errors.New("the charge that it went with has no answer")

// sums adds up the costs of differences by limit and period, in lists that name each limit once.
func sums(all []*decide.Difference) (out [][]table.Cost) {
	for _, d := range all {
		for _, c := range d.Costs {
			out = sum(out, c)
		}
	}
	for i := range out {
		out[i] = slices.DeleteFunc(out[i], func(c table.Cost) bool { return c.Milli == 0 })
	}
	return slices.DeleteFunc(out, func(costs []table.Cost) bool { return len(costs) == 0 })
}

// sum adds a cost to the first list that has its limit in its period, or does not name the limit.
func sum(lists [][]table.Cost, c table.Cost) [][]table.Cost {
	for i, costs := range lists {
		j := slices.IndexFunc(costs, func(o table.Cost) bool { return o.Limit.Name == c.Limit.Name })
		switch {
		case j < 0:
			lists[i] = append(costs, c)
			return lists
		case costs[j].End == c.End && costs[j].Resets == c.Resets && costs[j].Born == c.Born:
			costs[j].Milli += c.Milli
			return lists
		}
	}
	return append(lists, []table.Cost{c})
}
