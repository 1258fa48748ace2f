package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// clockless reports whether the image has no refill instant that can be used.
func (s *seen) clockless(now int64) bool {
	return s.image.State.NoClock || bucket.SubSat(s.image.State.RF, now) > bucket.MaxSkew
}

// covers reports whether the image covers the costs at now, less this process's costs under way.
func (s *seen) covers(w Want, now int64) (bucket.Verdict, string) {
	image := s.image
	if _, settles := s.boards(now); len(s.underWay)+len(settles) > 0 {
		image.State.Slots = append([]bucket.Slot(nil), image.State.Slots...)
		for i := range image.State.Slots {
			sl := &image.State.Slots[i]
			sl.Tokens = bucket.SubSat(sl.Tokens, s.gone(sl.Name, settles))
		}
	}
	if !w.stored(image.State) || len(image.Partial) > 0 || s.clockless(now) {
		plan := table.Charge{Image: image, Costs: w.Costs, Now: now, Lifetime: w.Lifetime}.Plan()
		return plan.Verdict, plan.Short
	}
	var few [16]int64
	needs := few[:0]
	if len(image.State.Slots) > len(few) {
		needs = make([]int64, 0, len(image.State.Slots))
	}
	i := 0
	for _, sl := range image.State.Slots { // both are in order of name
		need := int64(-1) // not asked for
		if i < len(w.Costs) && w.Costs[i].Limit.Name == sl.Name {
			need = w.Costs[i].Need(image.State)
			i++
		}
		needs = append(needs, need)
	}
	v := image.State.Decide(needs, now)
	if v.Slot < 0 {
		return v, ""
	}
	return v, image.State.Slots[v.Slot].Name
}

// level is the image's level of a limit at an instant, less this process's costs under way. Tokens
// above a lowered capacity are lost with the charge.
func (s *seen) level(l bucket.Limit, at int64) int64 {
	state := s.image.State
	share := state.RateOf(l).Capacity
	level := share // a limit that the shard does not have yet starts full
	if i := state.Index(l.Name); i >= 0 {
		level, _ = state.LevelAt(i, at)
	}
	_, settles := s.boards(at)
	return bucket.SubSat(min(level, share), s.gone(l.Name, settles))
}

// owes reports whether the image is in debt at an instant, of any limit in force: then the shard
// pays nothing, see ByLevels.
func (s *seen) owes(w Want, at int64) bool {
	for i, sl := range s.image.State.Slots {
		if sl.Soft || sl.Tokens >= 0 && sl.Held == 0 { // others may hold more than a share: that is debt, too
			continue
		}
		level, _ := s.image.State.LevelAt(i, at)
		if _, inForce := table.Find(w.Costs, sl.Name); inForce && level < 0 {
			return true
		}
	}
	return false
}

// raised reports whether a newer image shows more of some limit than the older one and refill
// explain, by a tenth of a share or more. Then tokens were given back, or the bucket was reset or
// credited, and the known levels of its other shards may be too low. Example: capacity 100, 3
// tokens a second ago, refilled by 10 a second: 13 by now. An image with 25 tokens shows 12 more,
// and 12 is more than 10.
func raised(old, newer bucket.State, now int64) bool {
	if old.Shards != newer.Shards || newer.NoClock {
		return false
	}
	for i, sl := range newer.Slots {
		j := old.Index(sl.Name)
		if sl.Name == bucket.WCU || j < 0 || old.Slots[j].Limit != sl.Limit ||
			sl.Held > 0 || old.Slots[j].Held > 0 { // it shows more when nothing is held any more
			continue
		}
		was, _ := old.LevelAt(j, now)
		if is, _ := newer.LevelAt(i, now); bucket.SubSat(is, was) > max(newer.Rate(i).Capacity/10, bucket.Milli) {
			return true
		}
	}
	return false
}

// older reports whether an image was certainly taken before another.
func older(a, b table.Shard) bool {
	if a.Generation != b.Generation && a.Generation != 0 && b.Generation != 0 {
		return a.Generation < b.Generation
	}
	i, j := a.State.Index(bucket.WCU), b.State.Index(bucket.WCU)
	if i >= 0 && j >= 0 && a.State.Slots[i].Used != b.State.Slots[j].Used {
		return a.State.Slots[i].Used < b.State.Slots[j].Used // the meter counts every write
	}
	return a.State.RF < b.State.RF
}

// younger reports whether the generation of a shard began after another's.
func younger(a, b table.Shard) bool { return table.Began(a.Generation) > table.Began(b.Generation) }

// Same reports whether two images of a shard show the same state of it.
func Same(a, b table.Shard) bool {
	return a.State.Shard == b.State.Shard && a.State.Shards == b.State.Shards && !older(a, b) && !older(b, a)
}

// boards returns the differences that the next charge of the shard can settle, and their costs.
func (s *seen) boards(now int64) (all []*Difference, costs []table.Cost) {
	if len(s.due) == 0 || !s.imaged() {
		return nil, nil
	}
	at := s.image.State.At(now)
	for _, d := range s.due {
		if !d.rides && !slices.ContainsFunc(d.Costs, func(c table.Cost) bool { return !s.image.Rides(at, c) }) {
			all, costs = append(all, d), append(costs, d.Costs...)
		}
	}
	return all, costs
}

// gone is the cost of a limit under way, less the part of settlements that the next charge gives
// back.
func (s *seen) gone(limit string, settles []table.Cost) int64 {
	sum := s.underWay.of(limit)
	for _, c := range settles {
		if c.Limit.Name == limit && c.Milli < 0 {
			sum = bucket.AddSat(sum, c.Milli)
		}
	}
	return sum
}

// held returns the grant of a request from a shard, without costs. It is worked out once for
// each image.
func (s *seen) held() Held {
	h := s.holding
	if h.serial != s.serial && s.imaged() { // else that from before the shard was gone
		image := s.image
		h.image, h.key, h.limits, h.serial = &image, image.Key(), image.State.Limits(), s.serial
	}
	return Held{Image: h.image, Key: h.key, Limits: h.limits}
}
