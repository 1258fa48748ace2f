package desk

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// With Options.Ahead, or Limit.Ahead, a process takes more than a request needs with a charge, and grants its
// next requests from that, without a call. See docs/hot-keys.md.

// Grant grants a request from what this process has taken ahead, and from its idle slots, which it returns
// too, if both cover it. It makes no call.
func (d *Desks) Grant(ctx context.Context, k *Desk, w decide.Want) (h decide.Held, s *inflight.Lease, ok bool) {
	if slices.ContainsFunc(w.Costs, isSlots) {
		wants := []decide.Want{w}
		s, w = d.reuse(wants), wants[0]
		defer func() {
			if !ok {
				d.unused(s, false)
			}
		}()
	}
	if h, ok = k.Grant(w, d.Moment); ok && h.Renew {
		d.takeMore(ctx, k, w, h)
	}
	return h, s, ok
}

// takeMore takes more ahead of the shard that a request was granted from. It is no part of Grant: what
// its goroutine needs would be made for each grant.
func (d *Desks) takeMore(ctx context.Context, k *Desk, w decide.Want, h decide.Held) {
	ctx = context.WithoutCancel(ctx)
	w.Costs = table.Costs(table.LimitsOf(h.Costs))
	shard := h.Image.State.Shard
	if !d.background.enter() {
		return
	}
	go func() {
		defer d.background.done()
		defer k.Renewed(shard)
		within := d.Bounded(ctx)
		defer within.End()
		tries := &Attempt{}
		d.prepare(within, tries)
		tries.Want, tries.Renews = w, true
		_ = Guarded(func() error {
			var effects decide.Effects
			k.Renew(&tries.Waiter, shard, d.Moment, &effects)
			d.carryOut(within, k, &effects)
			a := d.await(within, k, tries)
			if a.Err != nil || tries.Calls > 0 { // else another's write has renewed it
				d.Heard(ctx, w.Name, w.Name, a.Err)
			}
			if sent := tries.Calls; a.Result != decide.Granted && sent > 0 {
				d.observe(within, Event{Kind: Ahead, Name: w.Name, Op: "take ahead", Err: a.Err, Writes: sent})
			}
			return nil
		})
	}()
}

// absorb settles costs with the tokens that are held of a shard, and reports whether there is room for them.
// Debt that the image of the lease's charge still shows was never there: it is settled with the table.
func (d *Desks) absorb(n decide.Name, shard int, image table.Shard, costs []table.Cost) bool {
	k := d.Peek(n)
	if k == nil || slices.ContainsFunc(costs, isSlots) || image.Entity == "" || image.State.Shard != shard ||
		decide.PaidBack(image, table.NamesOf(costs)) > d.clock() {
		return false
	}
	return k.GiveBack(shard, table.Negative(costs), d.Moment)
}

// observeAhead reports what a charge has taken ahead, and what has expired of earlier charges.
func (d *Desks) observeAhead(ctx context.Context, c *decide.Call) {
	e := Event{Kind: Ahead, Name: c.First().Want.Name}
	if e.Taken, e.Ended = c.Ahead(); c.Renews() {
		e.Writes = c.Sent
	}
	if e.Writes > 0 || e.Taken != nil || e.Ended != nil {
		d.observe(ctx, e)
	}
}

// A quota does not refill within its period. So this process gives back what it took ahead of one
// and may no longer grant, with one write for all that has ended on a shard.

// mindIn gives expired tokens of quotas back on a shard after a while. If that is not written, it pauses.
func (d *Desks) mindIn(after time.Duration, k *Desk, shard int, pause time.Duration) {
	d.later(after+time.Millisecond, func() { d.giveUnspent(k, shard, pause) })
}

// longestPause is how long expired tokens that were not given back wait at most for the next try.
const longestPause = time.Minute

// giveUnspent gives back tokens that have expired on a shard. Where nothing was written it is
// tried again, after pauses that grow, for as long as the period goes on.
func (d *Desks) giveUnspent(k *Desk, shard int, pause time.Duration) {
	u, ms, more := k.Unspent(shard, d.Moment)
	if more {
		d.mindIn(time.Duration(ms)*time.Millisecond, k, shard, pause)
	}
	if len(u.Costs) == 0 {
		return
	}
	bounded := d.Bounded(context.Background())
	defer bounded.End()
	n := k.Name
	s := d.settling(n, shard, table.Shard{}, u.Costs)
	err := s.run(bounded, waitqueue.Taking{})
	e := Event{Kind: Ahead, Name: n, Op: "give back", Err: err, Writes: 1, Ended: table.Negative(u.Costs)}
	switch kind := store.KindOf(err); {
	case err == nil:
		k.Late(shard, s.late)
		e.Ended = table.Negative(without(u.Costs, s.late)) // the next charge reports those that were too late
	case kind != 0 && kind != store.Unknown: // a bucket that cannot be read is made anew, and is whole then
		if e.Writes, e.Ended = 0, nil; k.Unwritten(u, d.Moment) {
			d.mindIn(pause, k, shard, min(2*pause, max(pause, longestPause)))
		}
	}
	d.observe(context.Background(), e)
}
