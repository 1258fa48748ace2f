package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// A renewal moves all slots that this process holds of a bucket into the present epoch. It is a
// transaction of one write: sent again with the same token it is carried out once. So after a lost
// answer it is sent again, until the slots are lost.

// reuse takes over idle slots of this process for a new lease, and lowers the costs by them. It is
// nil if there are none. A request that leaves a part to others takes over none: for it, idle slots
// count as taken.
func (d *Desks) reuse(wants []decide.Want) (s *inflight.Lease) {
	for i, w := range wants {
		for j, c := range w.Costs {
			if !isSlots(c) || c.Milli <= 0 || c.Floor > 0 {
				continue
			}
			var milli int64
			s, milli = d.Slots.Reuse(s, wants[0].Name, w.Name, c, d.Now())
			if milli == 0 {
				continue
			}
			if wants[i].Reused == nil {
				wants[i].Reused = make([]int64, len(w.Costs))
			}
			w.Costs[j].Milli, wants[i].Reused[j] = c.Milli-milli, milli
		}
	}
	return s
}

// unused makes slots idle again that were taken over by a request that was not granted. If wake,
// the first request in the line asks for them.
func (d *Desks) unused(s *inflight.Lease, wake bool) {
	if s == nil {
		return
	}
	back, idle := d.Slots.Release(s, d.Now())
	d.GiveSlots(back)
	if wake {
		d.wake(idle)
	}
}

// GiveSlots gives idle slots back by item, in the background.
func (d *Desks) GiveSlots(all map[item.Key][]table.Cost) {
	for key, costs := range all {
		_, entity, resource, _, _ := layout.ParseBucketPK(key.PK)
		d.background.Go(func() {
			n := decide.Name{Entity: entity, Resource: resource}
			err := d.backOf(n, costs)
			d.Observe(context.Background(), Event{Kind: Ahead, Name: n, Op: "give back", Writes: 1, Err: err})
		})
	}
}

// Reusable is how long, in milliseconds, other leases may take over slots that are taken of a
// bucket now.
func (d *Desks) Reusable(n decide.Name, wants []decide.Want) int64 {
	i := slices.IndexFunc(wants, func(w decide.Want) bool { return w.Name == n })
	if i < 0 || wants[i].Ahead == 0 {
		return 0
	}
	return d.Of(n).Reusable(wants[i], d.Now())
}

// Release ends what a lease holds, and returns by item the costs that give it back. Another call
// returns nothing, nor does a call for no slots.
func (d *Desks) Release(s *inflight.Lease) map[item.Key][]table.Cost {
	if s == nil {
		return nil
	}
	defer d.ObserveLost()
	back, idle := d.Slots.Release(s, d.Now())
	d.wake(idle)
	return back
}

// wake lets the first in the line of each bucket ask for the slots that are idle there.
func (d *Desks) wake(idle []decide.Name) {
	for _, n := range idle {
		d.Waiting.Wake(n)
	}
}

// ObserveLost reports the slots that were lost.
func (d *Desks) ObserveLost() {
	for _, n := range d.Slots.News() {
		d.Observe(context.Background(), Event{Kind: Lost, Name: n})
	}
}

// keepUp renews the slots of a bucket that are due, and reports those that are lost.
func (d *Desks) keepUp(n decide.Name) {
	r, idle := d.Slots.Next(n, d.Now())
	d.ObserveLost() // the renewal may take long
	if idle != nil {
		d.GiveSlots(map[item.Key][]table.Cost{idle.Key(): idle.Costs})
	}
	if r == nil {
		return
	}
	err := Guarded(func() error { return d.move(r) })
	came, b := moved(err)
	_ = d.backOf(n, d.Slots.Moved(r, came, b, d.Now()))
	d.ObserveLost()
	if err != nil {
		d.Observe(context.Background(), Event{Kind: Upkeep, Name: n, Op: "renew", Err: err})
	}
}

// move writes the renewal. After a lost answer it is sent again, until the slots are lost: from
// then on a failure does not show whether they were renewed.
func (d *Desks) move(r *inflight.Renewal) (lost error) {
	ttl := r.TTL()
	if image := d.Of(r.Name).Seen(0).Image; image.Entity != "" {
		ttl = image.TTL
	}
	write, token := table.Renew(r.Key(), ttl, r.Costs), rand.Text()
	for {
		bounded := d.Bounded(context.Background())
		err := d.transactAs(bounded, token, []item.Write{write}, &decide.Attempt{})
		bounded.End()
		now := d.Now()
		came, b := moved(err)
		if b != nil {
			d.see(*b, now, decide.Unsent)
		}
		if came == inflight.Unknown {
			lost = err
		}
		switch {
		case came == inflight.Done, came == inflight.Refused, lost == nil:
			return err
		case now >= r.LostAt():
			return lost
		}
		time.Sleep(time.Duration(min(r.LostAt()-now, r.RetryMs())) * time.Millisecond)
	}
}

// moved returns how a renewal ended, by its error, and the image that refused it.
func moved(err error) (came inflight.Outcome, b *table.Shard) {
	canceled, refused := errors.AsType[*store.Canceled](err)
	switch {
	case err == nil:
		return inflight.Done, nil
	case !refused && store.KindOf(err) == store.Unknown:
		return inflight.Unknown, nil
	case !refused:
		return inflight.Failed, nil
	}
	if old, odd := table.DecodeShard(canceled.Reasons[0].Old); odd == nil {
		b = &old
	}
	return inflight.Refused, b
}

// backOf gives back slots of ended leases that the leases did not give back: they were just moved,
// or idle. Slots that cannot be given back are free when their epochs are over.
func (d *Desks) backOf(n decide.Name, back []table.Cost) error {
	if len(back) == 0 {
		return nil
	}
	bounded := d.Bounded(context.Background())
	defer bounded.End()
	return Guarded(func() error { return d.settleNow(bounded, n, 0, table.Shard{}, waitqueue.Taking{}, back) })
}
