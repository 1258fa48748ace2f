package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Cost is what a write takes from one limit, in millitokens. Public costs are
// whole tokens, so it is a multiple of 1000.
type Cost struct {
	Limit string
	Milli int64
}

// costsBySlot spreads costs over the slots of a state; slots without a cost get
// zero. A write that is metered takes from wcu too.
func costsBySlot(s bucket.State, costs []Cost, metered bool) []int64 {
	out := make([]int64, len(s.Slots))
	for _, c := range costs {
		if i := s.Index(c.Limit); i >= 0 {
			out[i] = c.Milli
		}
	}
	if i := s.Index(bucket.WCU); i >= 0 && metered {
		out[i] = bucket.WCUPerWrite
	}
	return out
}

// needsBySlot is costsBySlot for a decision: only the limits with a cost are
// looked at (a cost of zero included), everything else is -1.
func needsBySlot(s bucket.State, costs []Cost) []int64 {
	out := make([]int64, len(s.Slots))
	for i := range out {
		out[i] = -1
	}
	for _, c := range costs {
		if i := s.Index(c.Limit); i >= 0 {
			out[i] = c.Milli
		}
	}
	return out
}

func hasCost(costs []Cost, limit string) bool {
	return slices.ContainsFunc(costs, func(c Cost) bool { return c.Limit == limit })
}
