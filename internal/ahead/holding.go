package ahead

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Instant is one instant by two clocks, in milliseconds: Wall is the clock of refill
// instants, Mono one that never jumps. A process that stood still reads it from either.
type Instant struct{ Wall, Mono int64 }

// Holding is what a process holds of one bucket shard, and what it has told of that. The
// zero Holding holds nothing. It is not safe for concurrent use.
type Holding struct {
	generation int64 // of what was told
	told       amounts
	allotments []allotment
	ended      amounts       // unspent, and not written yet
	marks      []table.Shard // images of the generation, in order: what they counted is spent once their hu passes
	asked      *asked        // the charge under way that takes ahead
}

// allotment is what one charge took ahead.
type allotment struct {
	left       amounts
	limits     []table.Cost // the limits in force when it was taken
	generation int64
	until      Instant
	// covers marks what others may hold at a mend, told by this process: nothing is granted
	// from it.
	covers bool
}

// asked is a charge under way.
type asked struct {
	generation         int64
	delta, take, ended amounts
	limits             []table.Cost
	until              Instant
	mends              bool
}

// over reports whether nothing of an allotment may be granted any more.
func (a *allotment) over(now Instant) bool {
	return now.Wall >= a.until.Wall || now.Mono >= a.until.Mono && !a.covers
}

// Take grants costs from what is held, all of them or none. The limits must be those that
// were in force when it was taken.
func (h *Holding) Take(costs []table.Cost, now Instant) bool {
	if !h.serves(costs, now) {
		return false
	}
	for _, c := range costs {
		have := int64(0)
		for i := range h.allotments {
			if a := &h.allotments[i]; a.serves(costs, now) {
				have += a.left.of(c.Limit.Name)
			}
		}
		if have < c.Milli {
			return false
		}
	}
	for _, c := range costs {
		need := c.Milli
		for i := range h.allotments {
			if a := &h.allotments[i]; need > 0 && a.serves(costs, now) {
				if n := min(need, a.left.of(c.Limit.Name)); n > 0 {
					a.left.add(c.Limit.Name, -n)
					need -= n
				}
			}
		}
	}
	return true
}

// serves reports whether requests with these limits are granted from the allotment.
func (a *allotment) serves(costs []table.Cost, now Instant) bool {
	return !a.covers && !a.over(now) && sameLimits(a.limits, costs)
}

// serves reports whether there is an allotment of these limits.
func (h *Holding) serves(costs []table.Cost, now Instant) bool {
	return slices.ContainsFunc(h.allotments, func(a allotment) bool { return a.serves(costs, now) })
}

// sameLimits reports whether two lists of costs are of the same limits.
func sameLimits(a, b []table.Cost) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Limit != b[i].Limit {
			return false
		}
	}
	return true
}

// Left returns what is held of a limit and can be granted.
func (h *Holding) Left(limit string, now Instant) (milli int64) {
	for i := range h.allotments {
		if a := &h.allotments[i]; !a.covers && !a.over(now) {
			milli += a.left.of(limit)
		}
	}
	return milli
}

// Return puts tokens back that were granted, if what is held with them is no more than what
// was told; else it reports false, and they belong back into the table. Costs are what goes
// back, in positive numbers.
func (h *Holding) Return(costs []table.Cost, now Instant) bool {
	h.end(now)
	held := h.held(h.generation, now)
	for _, c := range costs {
		if held.of(c.Limit.Name)+c.Milli > h.told.of(c.Limit.Name) {
			return false
		}
	}
	for i := range h.allotments {
		a := &h.allotments[i]
		if a.covers || a.over(now) || a.generation != h.generation || !sameLimits(a.limits, costs) {
			continue
		}
		for _, c := range costs {
			a.left.add(c.Limit.Name, c.Milli)
		}
		return true
	}
	return false
}

// See takes note of an image of the shard.
func (h *Holding) See(image table.Shard, life int64) {
	if n := len(h.marks); n > 0 {
		last := h.marks[n-1]
		switch {
		case last.Generation != image.Generation:
			h.marks = h.marks[:0]
		case image.State.RF-last.State.RF < life/16:
			return
		case n == maxMarks:
			h.marks = slices.Delete(h.marks, 1, 2)
		}
	}
	h.marks = append(h.marks, image)
}

// maxMarks bounds how many images are kept: one that is as old as an allotment, and those
// that will be.
const maxMarks = 20

// spent returns the latest image of the generation of which all is spent at an instant.
func (h *Holding) spent(generation, at int64) *table.Shard {
	for len(h.marks) > 1 && h.marks[1].State.HeldUntil <= at {
		h.marks = slices.Delete(h.marks, 0, 1)
	}
	if len(h.marks) == 0 || h.marks[0].Generation != generation || h.marks[0].State.HeldUntil > at {
		return nil
	}
	return &h.marks[0]
}

// end forgets what is over, and takes down what of it was not granted.
func (h *Holding) end(now Instant) {
	h.allotments = slices.DeleteFunc(h.allotments, func(a allotment) bool {
		if !a.over(now) {
			return false
		}
		if !a.covers {
			for _, n := range a.left {
				h.ended.add(n.limit, n.milli)
			}
		}
		return true
	})
}

// held returns what is held of what was taken in a generation.
func (h *Holding) held(generation int64, now Instant) amounts {
	var out amounts
	for i := range h.allotments {
		if a := &h.allotments[i]; a.generation == generation && !a.over(now) {
			for _, n := range a.left {
				out.add(n.limit, n.milli)
			}
		}
	}
	return out
}

// Ask returns what a charge planned from the image at an instant tells when it takes so much
// ahead, for life milliseconds; take has all limits in force, and may have zeros. Done must
// be told what became of the charge, and until then nothing more can be asked: nil.
func (h *Holding) Ask(image table.Shard, take []table.Cost, life int64, now Instant) *table.Ahead {
	if h.asked != nil {
		return nil
	}
	h.end(now)
	if h.generation != image.Generation { // nobody has told anything yet
		h.generation, h.told = image.Generation, nil
	}
	left := h.held(h.generation, now)
	out := &table.Ahead{Life: life, Take: take, Left: left.costs(), Told: h.told.costs(), Ended: h.ended.costs()}
	at := max(now.Wall, image.State.RF)
	out.Spent = h.spent(image.Generation, at)
	out.Mend = h.mends(image, out.Spent, left, at)
	h.asked = &asked{
		generation: image.Generation, limits: take, ended: h.ended, mends: out.Mend,
		until: Instant{Wall: now.Wall + life, Mono: now.Mono + life},
	}
	h.ended = nil
	for _, c := range take {
		h.asked.take.add(c.Limit.Name, c.Milli)
		delta := left.of(c.Limit.Name) + c.Milli - h.told.of(c.Limit.Name)
		h.asked.delta.add(c.Limit.Name, delta)
		h.told.add(c.Limit.Name, min(0, delta))
	}
	return out
}

// mendFrom is how much of a capacity, in percent, must be wrongly told before it is mended.
const mendFrom = 5

// mends reports whether the item says of some limit that much more may be held than can be.
func (h *Holding) mends(image table.Shard, spent *table.Shard, left amounts, at int64) bool {
	for i, sl := range image.State.Slots {
		unspent := sl.Held
		switch {
		case image.State.HeldUntil <= at:
			unspent = 0
		case spent != nil && spent.State.Index(sl.Name) >= 0:
			unspent = min(unspent, max(0, sl.Used-spent.State.Slots[spent.State.Index(sl.Name)].Used))
		}
		wrong := sl.Held + left.of(sl.Name) - h.told.of(sl.Name) - unspent
		if wrong > image.State.Rate(i).Capacity/100*mendFrom {
			return true
		}
	}
	return false
}

// Outcome is what became of a charge.
type Outcome int

// The outcomes of a charge.
const (
	Unknown Outcome = iota // it may have been written
	Refused                // it was not
	Written
)

// Done ends what Ask began. image is the item as it was written.
func (h *Holding) Done(o Outcome, image table.Shard) {
	a := h.asked
	if a == nil {
		return
	}
	h.asked = nil
	same := h.generation == a.generation
	switch o {
	case Refused:
		for _, n := range a.ended {
			h.ended.add(n.limit, n.milli)
		}
		for _, n := range a.delta {
			if same && n.milli < 0 {
				h.told.add(n.limit, -n.milli)
			}
		}
	case Written:
		h.written(a, image, same)
	}
}

// written takes down what a charge has taken ahead and told.
func (h *Holding) written(a *asked, image table.Shard, same bool) {
	if a.take.some() {
		h.allotments = append(h.allotments,
			allotment{left: a.take, limits: a.limits, generation: image.Generation, until: a.until})
	}
	if image.Generation == a.generation {
		for _, n := range a.delta {
			if same && n.milli > 0 {
				h.told.add(n.limit, n.milli)
			}
		}
		return
	}
	h.generation, h.told = image.Generation, slices.Clone(a.take)
	if !a.mends {
		return
	}
	// All that was held at the mend is told by this process, until it is over.
	var covered amounts
	for _, sl := range image.State.Slots {
		if n := sl.Held - a.take.of(sl.Name); n > 0 && sl.Name != bucket.WCU {
			covered.add(sl.Name, n)
			h.told.add(sl.Name, n)
		}
	}
	if covered.some() {
		h.allotments = append(h.allotments, allotment{left: covered, generation: image.Generation, covers: true,
			until: Instant{Wall: image.State.HeldUntil}})
	}
}
