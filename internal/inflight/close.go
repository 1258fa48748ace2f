package inflight

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Close forgets a bucket. It returns the costs that give back its idle slots, one list for each
// epoch. Leases lose their slots of the bucket: nobody renews them any more.
func (k *Keeper) Close(n decide.Name, now int64) (back [][]table.Cost) {
	a := k.lock()
	defer k.mu.Unlock()
	b := a.Shelves.Find(n)
	if b == nil || b.timer == nil {
		return nil
	}
	a.look(b.idle, now)
	var all []*Renewal
	for _, h := range b.idle {
		if h.over {
			continue
		}
		if i := slices.IndexFunc(all, func(r *Renewal) bool { return r.add(h) }); i < 0 {
			r := &Renewal{}
			r.add(h)
			all = append(all, r)
		}
		h.over = true
	}
	for _, r := range all {
		back = append(back, r.back())
	}
	for _, h := range b.all {
		if !h.over {
			a.lose(h)
		}
	}
	a.forget(b)
	return back
}
