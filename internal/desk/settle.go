package desk

import (
	"context"
	"errors"
	"slices"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

const (
	// SettleAttempts is how often a settlement is planned, or sent while it is throttled.
	SettleAttempts = 8
	// UnavailableAttempts is how often a settlement is sent that DynamoDB did not take.
	// Nothing was written then, and nobody else will settle it.
	UnavailableAttempts = 4
)

// Settle settles costs on the item that has paid a part of a grant, whose image after the charge is given; zero
// if that is not known. A bucket that is no longer there has nothing
// to settle, nor has a limit that the bucket no longer has. taken is when that was taken which
// is given back: requests that were charged later and sleep are woken.
//
// Giving back is one update that holds whatever the item looks like. Taking more
// must reckon with what the bucket has gained since. Example: 8 of 10 are stored as of a
// minute ago, and it is full by now. An update that takes 5 leaves 3 as of a minute ago,
// which are 10 again with the next refill: the 5 are lost. So it is a charge by force,
// from the last image, planned again when that turns out to be old. If others keep
// changing the item, a plain update takes it anyway.
//
// If it waits, it may go with other writes of the shard, see Options.SettleWithin; but slots, for which others may
// wait, go by themselves. Settle reports whether it has written by itself.
func (d *Desks) Settle(ctx context.Context, n decide.Name, shard int, image table.Shard, taken waitqueue.Taking,
	costs []table.Cost, waits bool) (wrote bool, err error) {
	if image.State.Shard != shard {
		image.Born = 0 // of another shard that paid, which may be older
	}
	costs = Pinned(costs, image, d.clock())
	costs = slices.DeleteFunc(costs, func(c table.Cost) bool { return c.Milli == 0 })
	if len(costs) == 0 || d.absorb(n, shard, image, costs) {
		return false, nil
	}
	if waits && !slices.ContainsFunc(costs, isSlots) {
		return d.handOver(ctx, n, shard, errand{taken: taken, image: image}, costs)
	}
	return true, d.settling(n, shard, image, costs).run(ctx, taken)
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
		now := d.clock()
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

// sentAgain pauses after a settlement that was not written, and reports whether it is
// to be sent again.
func sentAgain(ctx context.Context, try int, err error) bool {
	attempts, pause, most := 2*SettleAttempts, contentionPause, 32*contentionPause
	switch kind := store.KindOf(err); {
	case kind == store.Unavailable:
		attempts, pause = UnavailableAttempts, 5*contentionPause
	case kind == store.Throttled:
		attempts, pause, most = SettleAttempts, ThrottlePause, 4*ThrottlePause
	case !store.Passes(err):
		return false
	}
	return try < attempts && smithytime.SleepWithContext(ctx, store.Jitter(try-1, pause, most)) == nil
}

// settling is the settling of costs on one item, which moves on to the parent
// shard when the shard has merged.
type settling struct {
	d     *Desks
	name  decide.Name
	key   item.Key
	shard int
	image table.Shard    // what a charge is planned from; the zero one is none
	since int            // the serial number of the image
	costs []table.Cost   // still to settle, none of them zero
	gives table.Released // Declared and Ended, written besides
	ends  bool           // late costs have expired unspent, and are written so
	more  bool           // something is taken
	plain bool           // the item is written without looking, and the write is not counted
	late  []table.Cost   // not given back, because their period is over
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
	released := s.gives
	released.Back = s.costs
	switch {
	case s.more && s.image.Entity != "" && try < SettleAttempts:
		return table.Charge{Image: s.image, Costs: adjustable(s.image.State, s.costs), Now: now,
			Lifetime: table.KeepLifetime, Slack: s.d.Settings.Slack, Force: true}.Plan().Update, true
	case s.plain:
		return table.AdjustUnmetered(s.key, s.costs), false
	}
	return table.Release(s.key, released), false
}

// refused takes in the item that a write was refused by, nil for none. It reports whether nothing
// is left to settle.
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
	if unmetered := err != nil || b.State.Index(bucket.WCU) < 0; unmetered && !s.plain {
		s.image, s.plain = table.Shard{}, true
		return false
	}
	if left := current(b, s.costs); len(left) < len(s.costs) {
		late := without(s.costs, left)
		s.late, s.costs, s.image = append(s.late, late...), left, b
		if s.ends {
			s.gives.Ended = table.Plus(s.gives.Ended, table.Negative(slices.DeleteFunc(late, isSlots))) // slots are free
		}
		return len(left)+len(s.gives.Declared)+len(s.gives.Ended) == 0
	}
	if !charged {
		left := still(b, s.costs)
		if len(left) == 0 || len(left) == len(s.costs) {
			return true // the charged limits are not there any more
		}
		s.costs = left
		return false
	}
	s.d.see(b, now, s.since)
	s.image = b
	return false
}

// written remembers the image of a settled item, and wakes the requests that wait for the tokens given
// back. When its debt could outlive it, its expiry is moved.
func (d *Desks) written(ctx context.Context, n decide.Name, item item.Item, g waitqueue.Return) {
	b, err := table.DecodeShard(item)
	if err != nil {
		return // the next acquire will say why the item cannot be read
	}
	now := d.clock()
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
		d.observe(ctx, Event{Kind: Upkeep, Name: n, Op: "prolong", Err: err})
	}
}

// explain finds out why DynamoDB has rejected a write to a bucket, as it does if the write adds to an attribute
// that is no number. Then the error is the ErrUnreadable of the bucket, and not that the table is not set up.
// If a number is missing altogether, the image is returned without an error, to decide again: the next charge
// mends it. That explains one write, as mended says, and no other.
func (d *Desks) explain(ctx context.Context, err error, w item.Write, mended *bool) (table.Shard, error) {
	if store.KindOf(err) != store.Setup {
		return table.Shard{}, err
	}
	items, failed := d.Store.Read(ctx, true, w.Target())
	if failed != nil || items[0] == nil {
		return table.Shard{}, err
	}
	if b, odd := table.DecodeShard(items[0]); odd != nil || len(b.Partial) > 0 && !*mended {
		*mended = true
		return b, odd
	}
	return table.Shard{}, err
}
