package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Cost is a limit and the tokens that a write takes from it, in millitokens; a negative cost gives
// back. Public costs are whole tokens, so Milli is a multiple of 1000. Lists of costs are in order
// of name and have every limit once. A write that only settles a cost uses just the limit's name,
// because the stored limit may have changed since.
type Cost struct {
	Limit bucket.Limit
	Milli int64
	// Floor is the part of the capacity, in percent, that must be left: see bucket.Limit.Floor.
	Floor int64
	// End is for giving back, with a negative cost. Of a quota, it is the end of the period in
	// which the tokens were taken; later periods get nothing back. 0: any period. Of an in-flight
	// limit, it is the end of the epoch in which the slots were taken; they are given back until
	// one epoch after that.
	End int64
	// Resets is how often an operator had made the quota whole when the tokens were taken. After
	// another reset, nothing is given back.
	Resets int64
	// Born is when the item was created from which the tokens of a quota were taken, epoch seconds.
	// An item that was created later gets nothing back. 0: unknown, and any item does.
	Born int64
}

// InForce returns the costs with the limits that their schedules put in force at an instant.
func InForce(costs []Cost, at int64) []Cost {
	for i := range costs {
		if costs[i].Limit.Plan == "" {
			continue
		}
		if is := costs[i].Limit.InForce(at); is != costs[i].Limit {
			costs = slices.Clone(costs)
			costs[i].Limit = is
		}
	}
	return costs
}

// Largest returns the cost with its limit at the largest capacity of the schedule.
func (c Cost) Largest() Cost {
	c.Limit = c.Limit.Slowest()
	return c
}

// FloorIn returns how much of a shard's share must be left, in millitokens.
func (c Cost) FloorIn(s bucket.State) int64 {
	if c.Floor == 0 {
		return 0
	}
	capacity := s.CapacityOf(c.Limit)
	return capacity - percent(100-c.Floor, capacity)
}

// Need returns the level that covers the cost. With a capacity of 100 and a floor of 40 %, a cost
// of 5 needs 45. A cost of nothing leaves everything, and only needs a level without debt.
func (c Cost) Need(s bucket.State) int64 {
	if c.Milli <= 0 {
		return c.Milli
	}
	return bucket.AddSat(c.Milli, c.FloorIn(s))
}

// Share returns the smallest share of the limit that can cover the cost: 10 for a cost of 6 with a
// floor of 40 %.
func (c Cost) Share() int64 {
	if c.Floor == 0 {
		return c.Milli
	}
	part := 100 - c.Floor
	return bucket.AddSat(c.Milli/part*100, (c.Milli%part*100+part-1)/part)
}

// Owed reports whether a waiting request takes the cost into debt. It does not for a quota, which
// forgives debts at its edge, nor for slots, nor with a floor, which protects others.
func (c Cost) Owed() bool { return c.Limit.Refills() && (c.Floor == 0 || c.Milli <= 0) }

// Costs pairs limits with millitokens, in their order; limits beyond the given amounts cost
// nothing. It is nil for nil limits.
func Costs(limits []bucket.Limit, milli ...int64) []Cost {
	if limits == nil {
		return nil
	}
	out := make([]Cost, len(limits))
	for i, l := range limits {
		out[i].Limit = l.Bare()
		if i < len(milli) {
			out[i].Milli = milli[i]
		}
	}
	return out
}

// LimitsOf returns the limits of costs, in their order.
func LimitsOf(costs []Cost) []bucket.Limit {
	out := make([]bucket.Limit, len(costs))
	for i, c := range costs {
		out[i] = c.Limit
	}
	return out
}

// NamesOf returns the names of the limits of costs, in their order.
func NamesOf(costs []Cost) []string {
	out := make([]string, len(costs))
	for i, c := range costs {
		out[i] = c.Limit.Name
	}
	return out
}

// Negative returns the costs that give back the given costs.
func Negative(costs []Cost) []Cost {
	out := slices.Clone(costs)
	for i := range out {
		out[i].Milli = -out[i].Milli
	}
	return out
}

// Plus adds up costs by limit.
func Plus(a, b []Cost) []Cost {
	out := slices.Clone(a)
	for _, c := range b {
		if i := slices.IndexFunc(out, func(o Cost) bool { return o.Limit.Name == c.Limit.Name }); i >= 0 {
			out[i].Milli = bucket.AddSat(out[i].Milli, c.Milli)
		} else {
			out = append(out, c)
		}
	}
	return out
}

// SameLimits reports whether two lists of costs have the same limits and floors.
func SameLimits(a, b []Cost) bool {
	same := len(a) == len(b)
	for i := 0; same && i < len(a); i++ {
		same = a[i].Limit == b[i].Limit && a[i].Floor == b[i].Floor
	}
	return same
}

// Find returns the cost of the named limit; ok is false if there is none.
func Find(costs []Cost, limit string) (c Cost, ok bool) {
	for _, c := range costs {
		if c.Limit.Name == limit {
			return c, true
		}
	}
	return Cost{}, false
}

// costsBySlot appends the costs in the order of a state's slots; slots without a cost get zero. A
// metered write takes from wcu too.
func costsBySlot(out []int64, s bucket.State, costs []Cost, metered bool) []int64 {
	for range s.Slots {
		out = append(out, 0)
	}
	for _, c := range costs {
		if i := s.Index(c.Limit.Name); i >= 0 && !c.late(s.Slots[i]) {
			out[i] = c.Milli
		}
	}
	if i := s.Index(bucket.WCU); i >= 0 && metered {
		out[i] = bucket.WCUPerWrite
	}
	return out
}

// needsBySlot appends the needs of costs in the order of a state's slots; other slots need nothing.
func needsBySlot(out []int64, s bucket.State, costs []Cost) []int64 {
	for range s.Slots {
		out = append(out, -1)
	}
	for _, c := range costs {
		if i := s.Index(c.Limit.Name); i >= 0 {
			out[i] = c.Need(s)
		}
	}
	return out
}

// late reports whether the cost would give back to another period than it was taken in, or to a
// period that was made whole since.
func (c Cost) late(sl bucket.Slot) bool {
	if sl.Returns() && c.Milli < 0 {
		return sl.Epoch()-sl.Limit.Epoch(c.End) > 1
	}
	return c.Milli < 0 && c.Late(sl)
}

// Counts reports whether a state still counts the slots that the cost gives back or moves.
func (c Cost) Counts(s bucket.State) bool {
	i := s.Index(c.Limit.Name)
	if i < 0 || !s.Slots[i].Returns() || s.Slots[i].Period != c.Limit.Period {
		return false
	}
	sl, e := s.Slots[i], c.Limit.Epoch(c.End)
	return (sl.Epoch() == e || sl.Epoch() == e+1) && sl.Taken.Of(e) >= max(c.Milli, -c.Milli)
}

// Younger reports whether a shard was created after the item from which the cost was taken.
func (c Cost) Younger(b Shard) bool { return c.Born != 0 && b.Born > c.Born }

// Late reports whether the cost was taken in another period than the slot's, or before a reset.
func (c Cost) Late(sl bucket.Slot) bool {
	return c.End != 0 && sl.Renews() && (sl.End != c.End || sl.Resets != c.Resets)
}

func percent(n, of int64) int64 { return of/100*n + of%100*n/100 }

// spend moves a cost from the level to the counter.
func spend(tk string, c Cost) []item.Attr {
	return []item.Attr{
		{Name: tk, Value: item.N(-c.Milli)},
		{Name: namesOf(c.Limit.Name).used, Value: item.N(c.Milli)},
	}
}
