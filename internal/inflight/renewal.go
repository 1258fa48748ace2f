package inflight

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Renewal moves all slots of a bucket that this process holds to the current epoch. The caller
// writes it with [table.Renew], and reports the outcome to [Keeper.Moved].
type Renewal struct {
	Name  decide.Name
	Costs []table.Cost // of all slots, one entry per limit
	held  []*held
}

// Key returns the key of the item whose slots are moved.
func (r *Renewal) Key() item.Key { return r.held[0].Key }

// TTL returns the expiry that the item had when the slots were taken.
func (r *Renewal) TTL() int64 { return r.held[0].TTL }

// RetryMs returns the delay before a failed renewal is tried again: a twentieth of an epoch.
func (r *Renewal) RetryMs() int64 { return r.Costs[0].Limit.Period / 20 }

// LostAt returns when the first slots of the renewal are lost.
func (r *Renewal) LostAt() int64 {
	at := int64(bucket.Never)
	for _, c := range r.Costs {
		at = min(at, c.Limit.LostAt(c.End))
	}
	return at
}

// add adds slots, unless the renewal already has slots of the same limit and another epoch. It
// reports whether it did.
func (r *Renewal) add(h *held) bool {
	for i, c := range r.Costs {
		if c.Limit.Name == h.Cost.Limit.Name {
			if c.End != h.Cost.End || c.Limit.Period != h.Cost.Limit.Period {
				return false
			}
			r.Costs[i].Milli += h.Cost.Milli
			r.held = append(r.held, h)
			return true
		}
	}
	r.Costs, r.held = append(r.Costs, h.Cost), append(r.held, h)
	return true
}

// back returns the negated costs, which give the slots back.
func (r *Renewal) back() []table.Cost {
	for i := range r.Costs {
		r.Costs[i].Milli = -r.Costs[i].Milli
	}
	return r.Costs
}

// Next marks the lost slots of a bucket, and returns the renewal that is due, or nil. After a
// renewal, call Moved. idle is nil, or the unused slots that the caller must give back, with
// negative costs.
func (k *Keeper) Next(n decide.Name, now int64) (r, idle *Renewal) {
	a := k.lock()
	defer k.mu.Unlock()
	b := a.Shelves.Find(n)
	if b == nil || b.timer == nil {
		return nil, nil
	}
	a.look(b.all, now)
	idle = b.expired(now)
	if a.forget(b) {
		return nil, idle
	}
	defer b.wakeIn(now)
	if b.renews || now < b.retryAt {
		return nil, idle
	}
	due := func(h *held) bool { return !h.over && now >= b.due(h) }
	if !slices.ContainsFunc(b.all, due) {
		return nil, idle
	}
	r = &Renewal{Name: n}
	for _, h := range b.all {
		if !h.over && now >= h.Cost.Limit.MovesAt(h.Cost.End) && r.add(h) {
			h.moving = true
		}
	}
	b.renews = true
	return r, idle
}

// Outcome is the result of a renewal.
type Outcome int

// Outcomes of a renewal.
const (
	Done    Outcome = iota
	Refused         // nothing was written, because the item does not count all of the slots
	Failed          // nothing was written
	Unknown         // it may still be written
)

// Moved records the outcome of a renewal. If it was refused, b is the stored shard, or nil if there
// is no item or it cannot be read. It returns the costs that give back the slots of leases that
// ended meanwhile.
func (k *Keeper) Moved(r *Renewal, came Outcome, b *table.Shard, now int64) (back []table.Cost) {
	a := k.lock()
	defer k.mu.Unlock()
	shelf, ended := r.held[0].in, &Renewal{}
	for _, h := range r.held {
		h.moving = false
		if came == Done {
			h.Cost.End += h.Cost.Limit.Period
		}
		switch {
		case h.over && came != Unknown:
			ended.add(h)
		case h.over:
		case came == Unknown, came == Refused && !r.counts(h, b):
			a.lose(h)
		}
	}
	shelf.renews, shelf.retryAt = false, now
	if came != Done {
		shelf.retryAt = now + r.RetryMs()
	}
	if !a.forget(shelf) {
		shelf.wakeIn(now)
	}
	return ended.back()
}

// counts reports whether the item that refused a renewal counts the slots of one limit. If it does,
// slots of another limit caused the refusal.
func (r *Renewal) counts(h *held, b *table.Shard) bool {
	if b == nil {
		return false
	}
	cost, _ := table.Find(r.Costs, h.Cost.Limit.Name)
	return cost.Counts(b.State)
}
