package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A renewal moves all slots that this process holds of a bucket into the present epoch. It is
// a transaction of one write: sent again with the same token it is carried out once. So an
// answer that is lost is asked for again, until the slots are lost.

// hold notes the slots that a new lease has taken, and begins to renew them. It goes on for
// as long as anybody has the lease, or until that ends.
func (l *Limiter) hold(le *Lease) {
	s := l.slotsOf(le, le.name, nil)
	for _, a := range le.above {
		s = l.slotsOf(a, le.name, s)
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
func (l *Limiter) slotsOf(a *Lease, n known.Name, s *slots.Lease) *slots.Lease {
	for i, it := range a.items {
		if !slices.ContainsFunc(it.taken, isSlots) {
			continue
		}
		taken := slices.Clone(it.taken)
		a.items[i].taken = slices.DeleteFunc(slices.Clone(taken), isSlots)
		l.pin(taken, a.image().State)
		for _, c := range taken {
			if !isSlots(c) || c.Milli <= 0 {
				continue
			}
			if s == nil {
				s = slots.NewLease(n)
			}
			s.Take(slots.Part{Name: it.name, Key: it.key, TTL: a.image().TTL, Cost: c})
		}
	}
	return s
}

func isSlots(c table.Cost) bool { return c.Limit.Lends() }

// release ends what a lease holds, and returns by item what gives it back. Another call
// returns nothing, as one for no slots does.
func (l *Limiter) release(s *slots.Lease) map[item.Key][]table.Cost {
	if s == nil {
		return nil
	}
	defer l.tellLost()
	return l.keeper.Release(s, l.now())
}

// tellLost tells observers of the slots that were lost.
func (l *Limiter) tellLost() {
	for _, n := range l.keeper.News() {
		l.tell(context.Background(), Event{Kind: EventLost, Entity: n.Entity, Resource: n.Resource})
	}
}

// keepUp looks at what is held of a bucket: tells who has lost slots, and renews what is due.
func (l *Limiter) keepUp(n known.Name) {
	r := l.keeper.Next(n, l.now())
	l.tellLost() // the renewal may take long
	if r == nil {
		return
	}
	err := error(&store.Failure{Kind: store.Unknown, Op: "TransactWriteItems", Err: errors.New("panic")})
	_ = guarded(func() { err = l.move(r) })
	came, b := moved(err)
	l.backOf(r, l.keeper.Moved(r, came, b, l.now()))
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
		err := l.transactAs(bounded, token, []item.Write{write}, &attempt{})
		bounded.end()
		now := l.now()
		came, b := moved(err)
		if b != nil {
			l.desks.see(*b, now, known.Unsent)
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
		time.Sleep(time.Duration(max(min(r.LostAt()-now, r.RetryMs()), 1)) * time.Millisecond)
	}
}

// moved tells by the error of a renewal what came of it, and what it was refused by.
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

// backOf gives back what leases held that have ended while it was moved. What cannot be given
// back is free when its epochs are over.
func (l *Limiter) backOf(r *slots.Renewal, back []table.Cost) {
	if len(back) == 0 {
		return
	}
	bounded := l.bounded(context.Background())
	defer bounded.end()
	it := leaseItem{name: r.Name, key: r.Key()}
	_ = guarded(func() { _ = l.settle(bounded, it, table.Shard{}, queue.Taking{}, back) })
}
