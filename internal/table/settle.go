package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// settle takes the differences of leases, s in total, at the instant of the charge: the costs meet
// a level that is lower by s, and the counter grows by s as well. The line does not change.
// Example: level 6, counter 100, a lease gives 3 back (s = -3) and a request costs 8. The counter
// may reach 100 + 9 less the costs: tk = 101 - tc and tc + 5, if tc <= 101. That leaves 1.
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

// Rides reports whether a charge can settle a difference when the shard is in state s, unless it
// begins a generation: the limit must be stored by its level, and the period in which the tokens
// were taken must still last.
func (b Shard) Rides(s bucket.State, c Cost) bool {
	i := s.Index(c.Limit.Name)
	if i >= 0 && c.Milli > 0 && s.Slots[i].FirstUse() > 0 && s.Slots[i].End == 0 {
		return false // it would begin the period
	}
	return i >= 0 && hasLevel(s.Slots[i].Limit) && hasLevel(c.Limit) && !c.late(s.Slots[i]) && !c.Younger(b)
}

// taken returns the costs, or nil if nothing is taken.
func (c Charge) taken() []Cost {
	if c.Refill {
		return nil
	}
	return c.Costs
}
