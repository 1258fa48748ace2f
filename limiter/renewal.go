package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A renewal moves all slots that this process holds of a bucket into the present epoch. It is
// a transaction of one write: sent again with the same token it is carried out once, so an
// answer that is lost is asked for again, until the slots are lost.

// renewal is one that is under way.
type renewal struct {
	name  known.Name
	held  []*held
	costs []table.Cost // of all of them, each limit once
}

// keepUp looks at what is held of a bucket: tells who has lost slots, and renews what is due.
func (l *Limiter) keepUp(n known.Name) {
	defer l.tellLost()
	r := l.keeper.next(n, l.now())
	if r == nil {
		return
	}
	l.tellLost() // the renewal may take long
	err := error(&store.Failure{Kind: store.Unknown, Op: "TransactWriteItems", Err: errors.New("panic")})
	_ = guarded(func() { err = l.move(r) })
	l.gaveUp(r, l.keeper.moved(r, err, l.now()))
	if err != nil {
		l.tell(context.Background(), Event{Kind: EventUpkeep, Entity: n.Entity, Resource: n.Resource,
			Err: outcome("renew", n, err)})
	}
}

// next returns the renewal that is due, nil for none.
func (k *keeper) next(n known.Name, now int64) *renewal {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.by[n]
	if b == nil {
		return nil
	}
	k.look(b.all, now)
	if k.forget(n, b) {
		return nil
	}
	defer b.wakeIn(now)
	if b.renews || now < b.retryAt {
		return nil
	}
	r := &renewal{name: n}
	due := func(h *held) bool { return !h.over && now >= b.due(h) }
	if !slices.ContainsFunc(b.all, due) {
		return nil
	}
	for _, h := range b.all {
		if !h.over && now >= h.cost.Limit.MovesAt(h.cost.End) && r.add(h) {
			h.moving = true
		}
	}
	b.renews = true
	return r
}

// add takes slots along, if all of their limit in the renewal are of the same epoch.
func (r *renewal) add(h *held) bool {
	for i, c := range r.costs {
		if c.Limit.Name == h.cost.Limit.Name {
			if c.End != h.cost.End || c.Limit.Period != h.cost.Limit.Period {
				return false
			}
			r.costs[i].Milli += h.cost.Milli
			r.held = append(r.held, h)
			return true
		}
	}
	r.costs, r.held = append(r.costs, h.cost), append(r.held, h)
	return true
}

// lostAt is when the first slots of the renewal are lost.
func (r *renewal) lostAt() int64 {
	at := r.costs[0].Limit.LostAt(r.costs[0].End)
	for _, c := range r.costs {
		at = min(at, c.Limit.LostAt(c.End))
	}
	return at
}

// move writes the renewal. It asks again for an answer that is lost, until the slots are: once
// one is, a later failure tells as little.
func (l *Limiter) move(r *renewal) (lost error) {
	ttl := r.held[0].ttl
	if image := l.desks.of(r.name).Seen(0).Image; image.Entity != "" {
		ttl = image.TTL
	}
	write, token := table.Renew(r.held[0].item.key, ttl, r.costs), rand.Text()
	for {
		bounded := l.bounded(context.Background())
		err := l.transactAs(bounded, token, []item.Write{write}, &attempt{})
		bounded.end()
		now := l.now()
		canceled, refused := errors.AsType[*store.Canceled](err)
		if refused {
			if b, odd := table.DecodeShard(canceled.Reasons[0].Old); odd == nil {
				l.desks.see(b, now, known.Unsent)
			}
		}
		if store.KindOf(err) == store.Unknown {
			lost = err
		}
		switch {
		case err == nil, refused, lost == nil:
			return err
		case now >= r.lostAt():
			return lost
		}
		time.Sleep(time.Duration(max(min(r.lostAt()-now, r.costs[0].Limit.Period/20), 1)) * time.Millisecond)
	}
}

// moved notes what came of a renewal, and returns those whose leases have ended meanwhile.
func (k *keeper) moved(r *renewal, err error, now int64) (ended []*held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.by[r.name]
	canceled, refused := errors.AsType[*store.Canceled](err)
	kind := store.KindOf(err) // Unknown: it may be written still, whoever has given up
	sure := err == nil || refused || kind != store.Unknown
	for _, h := range r.held {
		h.moving = false
		if err == nil {
			h.cost.End += h.cost.Limit.Period
		}
		switch {
		case h.over && sure:
			ended = append(ended, h)
		case h.over:
		case refused && !stillCounts(canceled, r, h), !sure:
			k.lose(h)
		}
	}
	b.renews, b.retryAt = false, now
	if err != nil {
		b.retryAt = now + r.costs[0].Limit.Period/20
	}
	if !k.forget(r.name, b) {
		b.wakeIn(now)
	}
	return ended
}

// stillCounts reports whether the item that a renewal was refused by counts the slots of one
// limit, so that the others are to blame.
func stillCounts(c *store.Canceled, r *renewal, h *held) bool {
	if len(c.Reasons) == 0 || c.Reasons[0].Old == nil {
		return false
	}
	b, err := table.DecodeShard(c.Reasons[0].Old)
	cost, _ := table.Find(r.costs, h.cost.Limit.Name)
	return err == nil && cost.Counts(b.State)
}

// gaveUp gives back what leases held that have ended while it was moved.
func (l *Limiter) gaveUp(r *renewal, ended []*held) {
	back := &renewal{name: r.name}
	for _, h := range ended {
		back.add(h)
	}
	if len(ended) == 0 {
		return
	}
	bounded := l.bounded(context.Background())
	defer bounded.end()
	_ = guarded(func() { // else the epochs do
		_ = l.settle(bounded, ended[0].item, table.Shard{}, negative(back.costs))
	})
}
