package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// maxSlots is how many limits, the write meter included, one update names at
// most, so that it stays within DynamoDB's bounds on expressions. Limits that are
// no longer wanted stay stored, so a bucket may come to have more.
const maxSlots = 33

// narrowed returns the state without the limits that an update cannot name as
// well: those that are wanted come first, then others in order of name. What is
// left out is not credited while the clock moves, so it comes back more slowly
// than it might; a bucket that nobody can write to would be worse. Without
// wanted limits all are kept.
func narrowed(s bucket.State, want []bucket.Limit) bucket.State {
	if len(s.Slots) <= maxSlots || want == nil {
		return s
	}
	others := maxSlots - len(want) - 1
	out := s
	out.Slots = make([]bucket.Slot, 0, maxSlots)
	for _, sl := range s.Slots {
		if sl.Name == bucket.WCU || isWanted(want, sl.Name) {
			out.Slots = append(out.Slots, sl)
		} else if others > 0 {
			out.Slots = append(out.Slots, sl)
			others--
		}
	}
	return out
}

func isWanted(want []bucket.Limit, name string) bool {
	return slices.ContainsFunc(want, func(l bucket.Limit) bool { return l.Name == name })
}

// withUnnamed returns the state after a write together with the limits of the
// image that the write does not name. They keep their levels while the clock
// moves.
func withUnnamed(after, image bucket.State) bucket.State {
	for _, sl := range image.Slots {
		if after.Index(sl.Name) < 0 {
			after.Slots = append(slices.Clip(after.Slots), sl)
		}
	}
	return after
}

// drop removes limits that are not wanted and full from a bucket with more of
// them than an update can name. A limit that comes back starts full, so this
// mints nothing. The consumption counter stays.
func (p *refillPlan) drop() {
	if len(p.r.Image.State.Slots) <= maxSlots || p.r.Want == nil {
		return
	}
	elapsed := bucket.SubSat(p.credited.RF, p.stored.RF)
	p.after.Slots = slices.DeleteFunc(slices.Clone(p.after.Slots), func(sl bucket.Slot) bool {
		j := p.stored.Index(sl.Name)
		if j < 0 || sl.Name == bucket.WCU || isWanted(p.r.Want, sl.Name) {
			return false
		}
		r := p.stored.Rate(j)
		if p.credited.Slots[j].Tokens != r.Capacity {
			return false
		}
		tk := attrLimit(sl.Name, fieldTokens)
		least := bucket.SubSat(r.Capacity, bucket.Potential(p.stored.Slots[j].Rest, r, elapsed))
		p.cond = append(p.cond, item.Between(tk, item.N(least), item.N(r.Capacity)))
		p.u.Remove = append(p.u.Remove, tk, attrLimit(sl.Name, fieldCapacity), attrLimit(sl.Name, fieldAmount), attrLimit(sl.Name, fieldPeriod))
		return true
	})
}
