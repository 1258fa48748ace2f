package desk

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Pinned returns costs that give back to quotas, with the period of the item in which they were
// taken. It is the period of the image after the charge, or of now if there is no image. Slots are
// given back to the epoch in which they count. If that is not known, they are not given back: they
// are free when it is over.
func Pinned(costs []table.Cost, image table.Shard, now int64) []table.Cost {
	costs = slices.Clone(costs)
	for i, c := range costs {
		if c.Limit.Returns() && c.End == 0 {
			if j := image.State.Index(c.Limit.Name); j >= 0 && image.State.Slots[j].Limit == c.Limit && image.State.Shard == 0 {
				costs[i].End = image.State.Slots[j].End
			} else {
				costs[i].Milli = 0
			}
			continue
		}
		if !c.Limit.Renews() || c.Milli > 0 {
			continue
		}
		if j := image.State.Index(c.Limit.Name); j >= 0 {
			sl := image.State.Slots[j]
			costs[i].End, costs[i].Resets, costs[i].Born = sl.End, sl.Resets, image.Born
		} else { // of the period before rather than of the next one
			at := now - bucket.EdgeMargin
			costs[i].End = bucket.AddSat(at, c.Limit.WholeAt(at, 0).Edge) - bucket.EdgeMargin
		}
	}
	return costs
}

// current returns the costs without those that give back to a past period of a quota, and without
// slots that no longer count.
func current(b table.Shard, costs []table.Cost) []table.Cost {
	return slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool {
		if c.Limit.Returns() {
			return !c.Counts(b.State)
		}
		i := b.State.Index(c.Limit.Name)
		return i >= 0 && c.Late(b.State.Slots[i])
	})
}

// without returns the costs of limits that others do not name.
func without(costs, others []table.Cost) []table.Cost {
	return slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool {
		_, ok := table.Find(others, c.Limit.Name)
		return ok
	})
}

// still returns the costs of limits that the bucket still has.
func still(b table.Shard, costs []table.Cost) []table.Cost {
	return slices.DeleteFunc(slices.Clone(costs), func(c table.Cost) bool {
		return b.State.Index(c.Limit.Name) < 0 &&
			!slices.ContainsFunc(b.Partial, func(p table.PartialLimit) bool { return p.Name == c.Limit.Name })
	})
}

// adjustable returns the costs of all limits of a state except the write meter. If one
// write cannot name as many, it returns the given costs only.
func adjustable(s bucket.State, costs []table.Cost) []table.Cost {
	out := table.Costs(s.Limits())
	for i, c := range out {
		given, _ := table.Find(costs, c.Limit.Name)
		out[i].Milli, out[i].End, out[i].Resets = given.Milli, given.End, given.Resets
	}
	if len(s.Slots) > bucket.MaxSlots {
		out = slices.DeleteFunc(out, func(c table.Cost) bool { return c.Milli == 0 })
	}
	return out
}

func isSlots(c table.Cost) bool { return c.Limit.Returns() }
