package prefetch

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Other events of a bucket while its tokens are held.

// settles takes more for a request than it was granted, from the held tokens.
func (w *world) settles(p *process, k int) {
	more := w.small()
	back := slices.Clone(more)
	for i := range back {
		back[i].Milli = -more[i].Milli
	}
	if p.hold(k).Settle(back, w.clock(p)) {
		w.Count("settled")
		w.grant(w.Now, more)
	}
}

// anew deletes the bucket and creates it again, full. A process that holds tokens of the deleted
// one does not notice, and may grant them in addition.
func (w *world) anew() {
	full := table.Costs(w.limits)
	for i, l := range w.limits {
		full[i].Milli = -l.Capacity
	}
	w.grants = append(w.grants, grant{at: w.Now, costs: full, gift: true})
	for _, p := range slices.Concat(w.ps, w.ended) {
		for i, l := range w.limits {
			full := table.Costs(w.limits)
			full[i].Milli = -p.hold(0).Left(l.Name, w.clock(p))
			if a := p.hold(0).asked; a != nil { // it may be written, and the answer under way
				full[i].Milli -= a.take.of(l.Name)
			}
			w.grants = append(w.grants, grant{at: w.Now, costs: full})
		}
	}
	w.Write(item.Delete{Key: key(0)})
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(w.limits),
		Now: w.Now, Draw: w.Uint64()})
	w.Write(put)
	w.Count("remade")
}

// turn changes for how long a process holds prefetched tokens from now on, or whether it does.
func (w *world) turn(p *process) {
	p.ahead = w.IntN(3) > 0
	p.life = max(1, int64(float64(w.life)*[]float64{1, .5, .2, .05}[w.IntN(4)]))
	w.Count("turned")
}

// python charges like the Python client: it reads the item, fills the bucket up to its capacity
// regardless of held tokens, and writes the levels and their instant, if no refill happened
// meanwhile and the remaining tokens still suffice.
func (w *world) python(k int) {
	it, costs := w.Items[key(k)], w.small()
	w.After(w.late(), func() {
		b, err := table.DecodeShard(it)
		if err != nil {
			panic(err)
		}
		bare := b.State
		bare.HeldUntil = 0
		at := bare.At(w.Now)
		u := item.Update{Key: key(k), Set: []item.Attr{{Name: "rf", Value: item.N(at.RF)}}}
		holds := []item.Cond{item.Compare("rf", item.Eq, item.N(b.State.RF))}
		for _, c := range costs {
			i, j := at.Index(c.Limit.Name), b.State.Index(c.Limit.Name)
			if at.Slots[i].Tokens < c.Milli {
				return
			}
			gain := at.Slots[i].Tokens - b.State.Slots[j].Tokens
			if floor := c.Milli - gain; floor > 0 {
				holds = append(holds, item.Compare("b_"+c.Limit.Name+"_tk", item.Ge, item.N(floor)))
			}
			u.Add = append(u.Add,
				item.Attr{Name: "b_" + c.Limit.Name + "_tk", Value: item.N(gain - c.Milli)},
				item.Attr{Name: "b_" + c.Limit.Name + "_tc", Value: item.N(c.Milli)})
		}
		u.If = item.All(holds...)
		sent := w.Items[key(k)]
		if !w.Write(u) {
			return
		}
		w.Count("filled")
		w.grantSince(w.Now, costs)
		now, _ := table.DecodeShard(sent)
		for i, l := range w.limits {
			w.held[i] = max(w.held[i], now.State.Slots[now.State.Index(l.Name)].Held)
		}
	})
}
