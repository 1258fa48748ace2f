package prefetch

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Instant is one instant on two clocks, in milliseconds: Wall is the clock of refill instants, and
// Mono never jumps. Either shows that the process stood still.
type Instant struct{ Wall, Mono int64 }

// Holding is the tokens that a process holds of one bucket shard, and the amounts that it has
// declared in the item. The zero Holding holds nothing. It is not safe for concurrent use.
type Holding struct {
	generation int64 // the generation in which the amounts were declared
	declared   amounts
	allotments []allotment
	ended      amounts       // expired unspent, and not yet written
	marks      []table.Shard // images of the generation, in order: their counters are spent once their hu passes
	asked      *asked        // the charge under way that prefetches
	back       []table.Cost  // expired quota tokens to give back: negative
	image      bucket.State  // the last image
	serving    []*allotment  // room for Take
}

// allotment is the tokens that one charge prefetched.
type allotment struct {
	left       amounts
	limits     []table.Cost // the limits in force when it was taken
	generation int64
	until      Instant
	// covers marks tokens of other processes that this one declared at a mend. It grants nothing
	// from them.
	covers  bool
	periods []table.Cost // of quotas: the periods in which they were taken; nil for none
	rf      int64        // the refill instant after the charge
}

// asked is a charge under way.
type asked struct {
	delta, take, ended amounts
	limits             []table.Cost
	until              Instant
	mends              bool
}

// over reports whether no token of the allotment may be granted any more.
func (a *allotment) over(now Instant) bool {
	return now.Wall >= a.until.Wall || now.Mono >= a.until.Mono && !a.covers
}

// Take grants costs from the held tokens: all of them or none. The limits must be the same as when
// the tokens were taken.
func (h *Holding) Take(costs []table.Cost, now Instant) bool {
	serving := h.serving[:0]
	for i := range h.allotments {
		if a := &h.allotments[i]; a.serves(costs, now) {
			serving = append(serving, a)
		}
	}
	h.serving = serving
	for _, c := range costs {
		have := int64(0)
		for _, a := range serving {
			have += a.left.of(c.Limit.Name)
		}
		if have < c.Milli {
			return false
		}
	}
	for _, c := range costs {
		need := c.Milli
		for _, a := range serving {
			if n := min(need, a.left.of(c.Limit.Name)); n > 0 {
				a.left.add(c.Limit.Name, -n)
				need -= n
			}
		}
	}
	return len(serving) > 0
}

// serves reports whether requests with these limits are granted from the allotment.
func (a *allotment) serves(costs []table.Cost, now Instant) bool {
	return !a.covers && !a.over(now) && table.SameLimits(a.limits, costs)
}

// Left returns how many held tokens of a limit can be granted.
func (h *Holding) Left(limit string, now Instant) (milli int64) {
	for i := range h.allotments {
		if a := &h.allotments[i]; !a.covers && !a.over(now) {
			milli += a.left.of(limit)
		}
	}
	return milli
}

// Settle puts granted tokens back (positive numbers) or takes more (negative numbers), and reports
// whether it did. It does so only if the held tokens stay within the declared amount and there is
// no debt. Otherwise the table must settle.
func (h *Holding) Settle(back []table.Cost, now Instant) bool {
	h.end(now)
	held := h.held(h.generation)
	var a *allotment
	for i := range h.allotments {
		if o := &h.allotments[i]; !o.covers && o.generation == h.generation {
			a = o
		}
	}
	if a == nil || !a.takesBack(back) {
		return false
	}
	for _, c := range back {
		if held.of(c.Limit.Name)+c.Milli > h.declared.of(c.Limit.Name) || a.left.of(c.Limit.Name)+c.Milli < 0 {
			return false
		}
	}
	for _, c := range back {
		a.left.add(c.Limit.Name, c.Milli)
	}
	return true
}

// Some reports whether there is an allotment, even one that is over.
func (h *Holding) Some() bool { return len(h.allotments) > 0 }

// Asking reports whether the charge of the last Ask has no outcome yet.
func (h *Holding) Asking() bool { return h.asked != nil }

// MustReport reports whether the next write has something to add: tokens that expired unspent, or a
// smaller declared amount.
func (h *Holding) MustReport(now Instant) bool {
	h.end(now)
	return h.asked == nil && (h.ended.any() || h.declared.any())
}

// end drops allotments that are over, and counts their ungranted tokens.
func (h *Holding) end(now Instant) {
	for i := range h.allotments {
		if a := &h.allotments[i]; a.over(now) && !a.covers {
			h.leave(a, now)
		}
	}
	h.allotments = slices.DeleteFunc(h.allotments, func(a allotment) bool { return a.over(now) })
}

// held sums the remaining tokens of a generation's allotments. Call end first.
func (h *Holding) held(generation int64) amounts {
	var out amounts
	for i := range h.allotments {
		if a := &h.allotments[i]; a.generation == generation {
			for _, n := range a.left {
				out.add(n.limit, n.milli)
			}
		}
	}
	return out
}

// Ask returns the declaration for a charge that is planned from image and prefetches take, which
// may be held for life milliseconds. take has all limits in force, with zeros allowed. Call Done
// with the charge's outcome; until then Ask returns nil.
func (h *Holding) Ask(image table.Shard, take []table.Cost, life int64, now Instant) *table.Ahead {
	if h.asked != nil {
		return nil
	}
	h.end(now)
	if h.generation != image.Generation { // nothing is declared in it yet
		h.generation, h.declared = image.Generation, nil
	}
	left := h.held(h.generation)
	out := &table.Ahead{Life: life, Take: take, Left: left.costs(), Declared: h.declared.costs(), Ended: h.ended.costs()}
	at := max(now.Wall, image.State.RF)
	out.Spent = h.spent(image.Generation, at)
	out.Mend = h.mends(image, left, life)
	h.asked = &asked{
		limits: take, ended: h.ended, mends: out.Mend, until: Instant{Wall: now.Wall + life, Mono: now.Mono + life},
	}
	h.ended = nil
	for _, c := range take {
		h.asked.take.add(c.Limit.Name, c.Milli)
		delta := left.of(c.Limit.Name) + c.Milli - h.declared.of(c.Limit.Name)
		h.asked.delta.add(c.Limit.Name, delta)
		h.declared.add(c.Limit.Name, min(0, delta))
	}
	return out
}

// Outcome is the outcome of a charge.
type Outcome int

// The outcomes of a charge.
const (
	Unknown Outcome = iota // it may have been written
	Refused                // it was not
	Written
)

// Done reports the outcome of the charge that Ask declared. image is the written item.
func (h *Holding) Done(o Outcome, image table.Shard) {
	a := h.asked
	if a == nil {
		return
	}
	h.asked = nil
	switch o {
	case Refused:
		for _, n := range a.ended {
			h.ended.add(n.limit, n.milli)
		}
		for _, n := range a.delta {
			if n.milli < 0 {
				h.declared.add(n.limit, -n.milli)
			}
		}
	case Written:
		h.written(a, image)
	}
}

// written records the tokens that a charge prefetched and declared.
func (h *Holding) written(a *asked, image table.Shard) {
	if a.take.any() {
		h.allotments = append(h.allotments,
			allotment{left: a.take, limits: a.limits, generation: image.Generation, until: a.until,
				periods: periodsOf(a.limits, image), rf: image.State.RF})
		h.pass()
	}
	if image.Generation == h.generation { // unchanged since Ask: only one charge asks at a time
		for _, n := range a.delta {
			if n.milli > 0 {
				h.declared.add(n.limit, n.milli)
			}
		}
		return
	}
	h.generation, h.declared = image.Generation, slices.Clone(a.take)
	if !a.mends {
		return
	}
	// This process declares all tokens held at the time of the mend, until they are over.
	var covered amounts
	for _, sl := range image.State.Slots {
		if n := sl.Held - a.take.of(sl.Name); n > 0 && sl.Name != bucket.WCU {
			covered.add(sl.Name, n)
			h.declared.add(sl.Name, n)
		}
	}
	if covered.any() {
		h.allotments = append(h.allotments, allotment{left: covered, generation: image.Generation, covers: true,
			until: Instant{Wall: image.State.HeldUntil}})
	}
}
