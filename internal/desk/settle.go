package desk

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// settleNow is Settle by a write of its own.
func (d *Desks) settleNow(ctx context.Context, n decide.Name, shard int, image table.Shard, taken waitqueue.Taking,
	costs []table.Cost) error {
	if costs = d.unheld(n, shard, image, costs); len(costs) == 0 {
		return nil
	}
	return d.settling(n, shard, image, costs).run(ctx, taken)
}

// unheld settles costs with the held tokens of a shard, and returns the rest, for which there is no
// room, to be settled with the table, with their periods. Debt that the image of the lease's charge
// still shows was never there: it is settled with the table.
func (d *Desks) unheld(n decide.Name, shard int, image table.Shard, costs []table.Cost) []table.Cost {
	own := image.State.Shard == shard
	if !own {
		image.Born = 0 // of another shard that paid, which may be older
	}
	costs = slices.DeleteFunc(Pinned(costs, image, d.Now()), func(c table.Cost) bool { return c.Milli == 0 })
	k := d.Peek(n)
	if len(costs) == 0 || k == nil || !own || image.Entity == "" || slices.ContainsFunc(costs, isSlots) ||
		decide.PaidBack(image, table.NamesOf(costs)) > d.Now() || !k.GiveBack(shard, table.Negative(costs), d.Moment) {
		return costs
	}
	return nil
}

// settling begins to settle costs, none of them zero, on one item.
func (d *Desks) settling(n decide.Name, shard int, image table.Shard, costs []table.Cost) *settling {
	s := &settling{d: d, name: n, key: d.Key(n, shard), shard: shard, image: image, since: decide.Unsent, costs: costs}
	s.more = slices.ContainsFunc(costs, func(c table.Cost) bool { return c.Milli > 0 })
	if !s.known() && image.State.Shard != shard {
		s.image = table.Shard{} // of another shard that paid
	}
	return s
}

// run settles, see Settle.
func (s *settling) run(ctx context.Context, taken waitqueue.Taking) error {
	d, all := s.d, waitqueue.Return{Taken: taken, Costs: s.costs}
	for try := 1; ; try++ {
		now := d.Now()
		write, charges := s.write(try, now)
		item, err := d.Store.Write(ctx, write)
		if err == nil {
			d.written(ctx, s.name, item, all)
			return nil
		}
		if refused, ok := errors.AsType[*store.Refused](err); ok {
			if s.refused(refused.Old, charges, now) {
				return nil
			}
			continue
		}
		if !sentAgain(ctx, try, err) {
			if s.image, err = d.explain(ctx, err, write, &s.mended); err != nil {
				return err
			}
		}
	}
}

// settling is the settling of costs on one item, which moves on to the parent shard if the shard
// has merged.
type settling struct {
	d     *Desks
	name  decide.Name
	key   item.Key
	shard int
	image table.Shard    // what a charge is planned from; the zero one is none
	since int            // the serial number of the image
	costs []table.Cost   // still to settle, none of them zero
	gives table.Released // Declared and Ended, written besides
	ends  bool           // late costs are written as expired
	more  bool           // something is taken
	// mended: a limit that is half written has explained a write that was rejected.
	mended bool
}

// known takes the image of the item that this process has, and reports whether it has
// one.
func (s *settling) known() bool {
	seen := s.d.Of(s.name).Seen(s.shard)
	if seen.Image.Entity == "" {
		return false
	}
	s.image, s.since = seen.Image, seen.Serial
	return true
}

// write returns the next write to try, and whether it is a charge.
func (s *settling) write(try int, now int64) (w item.Update, charges bool) {
	if s.more && s.image.Entity != "" && try < SettleAttempts {
		return table.Charge{Image: s.image, Costs: adjustable(s.image.State, s.costs), Now: now,
			Lifetime: table.KeepLifetime, Slack: s.d.Settings.Slack, Force: true}.Plan().Update, true
	}
	released := s.gives
	released.Back = s.costs
	return table.Release(s.key, released), false
}

// refused handles the item that refused a write, nil for none. It reports whether nothing is left
// to settle.
func (s *settling) refused(old item.Item, charged bool, now int64) (done bool) {
	b, err := table.DecodeShard(old)
	if old == nil || slices.ContainsFunc(s.costs, func(c table.Cost) bool { return c.Younger(b) }) {
		if s.shard == 0 {
			return true // the bucket is gone
		}
		s.shard = bucket.SplitParent(s.shard) // the shard had merged: its parent has what it held
		s.gives.Declared = nil
		s.key = s.d.Key(s.name, s.shard)
		s.image, s.since = table.Shard{}, decide.Unsent
		s.known()
		return false
	}
	if len(s.gives.Declared) > 0 && (err != nil || b.Generation != s.gives.Generation) { // there it has declared nothing
		s.gives.Declared = nil
		return false
	}
	if unmetered := err != nil || b.State.Index(bucket.WCU) < 0; unmetered && !s.gives.Unmetered {
		s.image, s.gives.Unmetered = table.Shard{}, true
		return false
	}
	if left := current(b, s.costs); len(left) < len(s.costs) {
		late := without(s.costs, left) // their period is over
		s.costs, s.image = left, b
		if s.ends {
			s.gives.Ended = table.Plus(s.gives.Ended, table.Negative(slices.DeleteFunc(late, isSlots))) // slots are free
		}
		return len(left)+len(s.gives.Declared)+len(s.gives.Ended) == 0
	}
	if !charged {
		left := still(b, s.costs)
		if len(left) == len(s.costs) || len(left)+len(s.gives.Ended) == 0 {
			return true // the charged limits are not there any more
		}
		s.costs = left
		return false
	}
	s.d.see(b, now, s.since)
	s.image = b
	return false
}

// written remembers the image of a settled item, and wakes the requests that wait for the tokens
// given back. If its debt could outlive it, its expiry is moved.
func (d *Desks) written(ctx context.Context, n decide.Name, item item.Item, g waitqueue.Return) {
	b, err := table.DecodeShard(item)
	if err != nil {
		return // the next acquire will say why the item cannot be read
	}
	now := d.Now()
	d.see(b, now, decide.Unsent)
	g.Given = waitqueue.MomentOf(b)
	d.Waiting.Wake(n, g)
	u, ok := table.Prolong(b, now)
	if !ok {
		return
	}
	err = store.Retry(ctx, SettleAttempts, contentionPause, func() error {
		_, err := d.Store.Write(ctx, u)
		return err
	})
	if store.KindOf(err) != 0 {
		d.Observe(ctx, Event{Kind: Upkeep, Name: n, Op: "prolong", Err: err})
	}
}

// giveBack gives back grants, even if ctx has ended. It returns the failures.
func (d *Desks) giveBack(ctx context.Context, grants []decide.Grant) (failed []Trouble) {
	names := make([]decide.Name, len(grants))
	for i, g := range grants {
		names[i] = g.Name
	}
	return troubles("rollback", names, func(i int) []error { return d.giveBackOne(ctx, grants[i]) })
}

// giveBackOne gives back the grant of one bucket, to all shards at once. It returns the failures.
func (d *Desks) giveBackOne(ctx context.Context, g decide.Grant) []error {
	begin := time.Now()
	ctx = context.WithoutCancel(ctx)
	bounded := d.Bounded(ctx)
	defer bounded.End()
	e := Event{Kind: Returned, Name: g.Name}
	back := make([][]table.Cost, len(g.Parts))
	for i, p := range g.Parts {
		back[i] = table.Negative(p.Taken)
		if slices.ContainsFunc(back[i], func(c table.Cost) bool { return c.Milli != 0 }) {
			e.Writes++
		}
		e.Costs = append(e.Costs, back[i]...)
	}
	taken := waitqueue.TakingOf(*g.Image, g.Worked, g.Turn)
	e.Errs = slices.DeleteFunc(InParallel(len(g.Parts), func(i int) error {
		return d.settleNow(bounded, g.Name, g.Parts[i].Shard, *g.Image, taken, back[i])
	}), func(err error) bool { return err == nil })
	e.Elapsed = time.Since(begin)
	d.Observe(ctx, e)
	return e.Errs
}

// dropped gives back the grants of callers that have left, in the background.
func (d *Desks) dropped(ctx context.Context, grants ...decide.Grant) {
	ctx = context.WithoutCancel(ctx)
	d.background.Go(func() { d.giveBack(ctx, grants) }) // which reports the result
}
