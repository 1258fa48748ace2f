package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// settle takes the differences of leases, s in all, at the instant of the charge: the costs find a
// level that is lower by s, and the counter grows by s besides. The line stays the same for
// everybody. Example: level 6, counter 100, a lease gives 3 back (s = -3) and a request costs 8.
// The counter may get to 100 + 9 less the costs: tk = 101 - tc and tc + 5, if tc <= 101. That
// leaves 1.
func (p *planned) settle() {
	if p.settled = nil; p.begins || len(p.c.Settles) == 0 || p.c.taken() == nil {
		return
	}
	p.settled = make([]int64, len(p.before.Slots))
	p.before.Slots = slices.Clone(p.before.Slots)
	for _, c := range p.c.Settles {
		i := p.before.Index(c.Limit.Name)
		p.settled[i] = bucket.AddSat(p.settled[i], c.Milli)
	}
	for i, milli := range p.settled {
		sl, top := &p.before.Slots[i], p.before.Top(i)
		sl.Tokens = bucket.SubSat(sl.Tokens, milli)
		if milli < 0 && sl.Refills() && sl.Tokens >= top {
			sl.Tokens, sl.Rest, p.full[i] = top, 0, true
		}
	}
}

// Rides reports whether a charge can settle a difference that finds the state s of the shard by then, unless
// it begins a generation: its limit is stored as a level, and the period goes on in which the tokens were taken.
func (b Shard) Rides(s bucket.State, c Cost) bool {
	i := s.Index(c.Limit.Name)
	if i >= 0 && c.Milli > 0 && s.Slots[i].FirstUse() > 0 && s.Slots[i].End == 0 {
		return false // it begins the period
	}
	return i >= 0 && hasLevel(s.Slots[i].Limit) && hasLevel(c.Limit) && !c.late(s.Slots[i]) && !c.Younger(b)
}

// taken returns the costs, nil if nothing is to be taken.
func (c Charge) taken() []Cost {
	if c.Refill {
		return nil
	}
	return c.Costs
}
