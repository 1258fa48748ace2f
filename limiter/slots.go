package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A renewal moves all slots that this process holds of a bucket into the present epoch. It is
// a transaction of one write: sent again with the same token it is carried out once. So an
// answer that is lost is asked for again, until the slots are lost.

// reuse takes idle slots of this process over for a new lease, and lowers the costs by them. It is
// nil if there are none. A request that leaves a part to others takes none over: what is idle here is
// at work for it, too.
func (l *Limiter) reuse(wants []decide.Want) (s *slots.Lease) {
	for i, w := range wants {
		for j, c := range w.Costs {
			if !isSlots(c) || c.Milli <= 0 || c.Floor > 0 {
				continue
			}
			var milli int64
			s, milli = l.keeper.Reuse(s, wants[0].Name, w.Name, c, l.now())
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

// unused makes slots idle again that a request has taken over and that was not granted. If wake,
// the first of those who stand in line asks for them.
func (l *Limiter) unused(s *slots.Lease, wake bool) {
	if s == nil {
		return
	}
	back, idle := l.keeper.Release(s, l.now())
	l.giveSlots(back)
	if wake {
		l.wake(idle)
	}
}

// giveSlots gives slots back by item that were idle, in the background.
func (l *Limiter) giveSlots(all map[item.Key][]table.Cost) {
	for key, costs := range all {
		_, entity, resource, _, _ := layout.ParseBucketPK(key.PK)
		l.background.Go(func() {
			n := decide.Name{Entity: entity, Resource: resource}
			e := Event{Kind: EventAhead, Entity: entity, Resource: resource, Writes: 1}
			if err := l.backOf(n, key, costs); err != nil {
				e.Err = outcome("give back", n, err)
			}
			l.tell(context.Background(), e)
		})
	}
}

// hold notes the slots that a new lease has taken, beside those that it has taken over, and begins to
// renew them. It goes on for as long as anybody has the lease, or until that ends.
func (l *Limiter) hold(le *Lease, wants []decide.Want, s *slots.Lease) {
	s = l.slotsOf(le, le.name, wants, s)
	for _, a := range le.above {
		s = l.slotsOf(a, le.name, wants, s)
	}
	if s == nil {
		return
	}
	le.slots = s
	runtime.AddCleanup(le, l.keeper.Drop, s)
	l.keeper.Add(s, l.now())
}

// slotsOf sets apart the slots that a lease has taken on one level, and adds them to s; nil
// is none. The caller has named the bucket n.
func (l *Limiter) slotsOf(a *Lease, n decide.Name, wants []decide.Want, s *slots.Lease) *slots.Lease {
	for i, it := range a.items {
		if !slices.ContainsFunc(it.taken, func(c table.Cost) bool { return isSlots(c) && c.Milli > 0 }) {
			continue
		}
		taken := slices.Clone(it.taken)
		a.items[i].taken = slices.Clone(taken)
		l.pin(taken, a.image())
		for j, c := range taken {
			if isSlots(c) {
				a.items[i].taken[j].Milli = 0
			}
			if !isSlots(c) || c.Milli <= 0 {
				continue
			}
			if s == nil {
				s = slots.NewLease(n)
			}
			now := l.now()
			until := now + min(l.reusable(it.name, wants), c.Limit.Period)
			s.Take(slots.Part{Name: it.name, Key: it.key, TTL: a.image().TTL, Cost: c, From: now, Until: until})
		}
	}
	return s
}

// reusable is for how long, in milliseconds, slots that are taken of a bucket now may be taken over by
// other leases.
func (l *Limiter) reusable(n decide.Name, wants []decide.Want) int64 {
	i := slices.IndexFunc(wants, func(w decide.Want) bool { return w.Name == n })
	if i < 0 || wants[i].Ahead == 0 {
		return 0
	}
	return l.desks.of(n).Reusable(wants[i], l.now())
}

func isSlots(c table.Cost) bool { return c.Limit.Lends() }

// release ends what a lease holds, and returns by item what gives it back. Another call
// returns nothing, as one for no slots does.
func (l *Limiter) release(s *slots.Lease) map[item.Key][]table.Cost {
	if s == nil {
		return nil
	}
	defer l.tellLost()
	back, idle := l.keeper.Release(s, l.now())
	l.wake(idle)
	return back
}

// wake lets the first in the line of each bucket ask for the slots that are idle there.
func (l *Limiter) wake(idle []decide.Name) {
	for _, n := range idle {
		l.lines.Wake(n)
	}
}

// tellLost tells observers of the slots that were lost.
func (l *Limiter) tellLost() {
	for _, n := range l.keeper.News() {
		l.tell(context.Background(), Event{Kind: EventLost, Entity: n.Entity, Resource: n.Resource})
	}
}

// keepUp looks at what is held of a bucket: tells who has lost slots, and renews what is due.
func (l *Limiter) keepUp(n decide.Name) {
	r, idle := l.keeper.Next(n, l.now())
	l.tellLost() // the renewal may take long
	if idle != nil {
		l.giveSlots(map[item.Key][]table.Cost{idle.Key(): idle.Costs})
	}
	if r == nil {
		return
	}
	err := error(&store.Failure{Kind: store.Unknown, Op: "TransactWriteItems", Err: errors.New("panic")})
	_ = guarded(func() { err = l.move(r) })
	came, b := moved(err)
	_ = l.backOf(n, r.Key(), l.keeper.Moved(r, came, b, l.now()))
	l.tellLost()
	if err != nil {
		l.tell(context.Background(), Event{Kind: EventUpkeep, Entity: n.Entity, Resource: n.Resource,
			Err: outcome("renew", n, err)})
	}
}

// move writes the renewal. It asks again for an answer that is lost, until the slots are: once
// one is, a later failure tells as little.
func (l *Limiter) move(r *slots.Renewal) (lost error) {
	ttl := r.TTL()
	if image := l.desks.of(r.Name).Seen(0).Image; image.Entity != "" {
		ttl = image.TTL
	}
	write, token := table.Renew(r.Key(), ttl, r.Costs), rand.Text()
	for {
		bounded := l.bounded(context.Background())
		err := l.transactAs(bounded, token, []item.Write{write}, &decide.Attempt{})
		bounded.end()
		now := l.now()
		came, b := moved(err)
		if b != nil {
			l.desks.see(*b, now, decide.Unsent)
		}
		if came == slots.Unknown {
			lost = err
		}
		switch {
		case came == slots.Done, came == slots.Refused, lost == nil:
			return err
		case now >= r.LostAt():
			return lost
		}
		time.Sleep(time.Duration(min(r.LostAt()-now, r.RetryMs())) * time.Millisecond)
	}
}

// moved tells by its error how a renewal ended, and what refused it.
func moved(err error) (came slots.Outcome, b *table.Shard) {
	canceled, refused := errors.AsType[*store.Canceled](err)
	switch {
	case err == nil:
		return slots.Done, nil
	case !refused && store.KindOf(err) == store.Unknown:
		return slots.Unknown, nil
	case !refused:
		return slots.Failed, nil
	}
	if old, odd := table.DecodeShard(canceled.Reasons[0].Old); odd == nil {
		b = &old
	}
	return slots.Refused, b
}

// backOf gives back slots of leases that have ended, which those did not give back: they were just
// moved, or idle. What cannot be given back is free when its epochs are over.
func (l *Limiter) backOf(n decide.Name, key item.Key, back []table.Cost) (err error) {
	if len(back) == 0 {
		return nil
	}
	bounded := l.bounded(context.Background())
	defer bounded.end()
	it := leaseItem{name: n, key: key}
	if p := guarded(func() { err = l.settle(bounded, it, table.Shard{}, queue.Taking{}, back) }); p != nil {
		return p
	}
	return err
}
