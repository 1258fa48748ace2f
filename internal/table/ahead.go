package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Ahead is the part of a [Charge] that prefetches tokens, and declares the tokens that its process
// holds.
//
// A process may take more than it needs now, and grant its next requests from the rest without a
// write. The rest is held: counted, but not spent. A process may hold it for Life after it sent the
// write, by its own clock. Level and held tokens together must never exceed a full bucket, even
// between writes. So the item stores for each limit how much may be held (the attribute "o_", as a
// negative number), and until when ("hu"). With w, the part of the counter tc that is certainly
// spent,
//
//	w(s) >= tc - held    for every s >= rf
//	w(s) >= tc           for every s >= hu
//
// and because the bucket may be at most its capacity ahead of w,
//
//	allowed(t) = min(line(t), tc + capacity, tc - held + capacity + the refill from hu to t)
//
// where the last bound applies while hu is later than rf. [bucket.State] fills up to allowed(t).
//
// held may be too high, never too low. Until a process has the answer, it counts the smaller of the
// old and the new number as declared. So a crash or a lost answer leaves its tokens in held, which
// costs capacity near full until Mend clears it: once the hu of an image has passed, all of its
// counter is spent. A mended item begins a new generation, in which no process has declared
// anything. The process that mended declares the amount held at that moment, and may lower it once
// hu has passed.
//
//	SET  o = -(tc - spent + prefetched)     mended; the server's tc, before this update
//	ADD  o  declared before - held now      else
//	SET  hu = max(the image's, t + Life)    IF there is none, or none that is later; rounded up
//
// Example: capacity 10, 1 per second, full, nothing held, tc=100. At 0 s a process charges 1 and
// prefetches 4 for 5 s: level 5, tc=105, o=-4, hu=5s. Other processes see at most 6 until 5 s: at 1
// s the level is 6, and the 4 may be spent at once, which makes 10. If they were spent at 4.99 s, a
// full bucket from which 4 were just taken would hold 6.
type Ahead struct {
	Life     int64  // milliseconds for which Take may be held, at most bucket.MaxAhead
	Take     []Cost // how much of the costs is prefetched
	Left     []Cost // the unspent rest of the tokens that the process took in the image's generation
	Declared []Cost // the part of Left that the item is sure to count
	Ended    []Cost // tokens that expired unspent and are not yet counted
	Mend     bool   // declare the held tokens afresh
	Spent    *Shard // with Mend, an earlier image of the generation whose hu has passed; may be nil
}

// takes returns how many millitokens of a limit the charge prefetches.
func (a *Ahead) takes(limit string) int64 {
	c, _ := Find(a.Take, limit)
	return c.Milli
}

// untilSteps is the number of steps per life to which hu is rounded up; a step is at most one
// second.
const untilSteps = 8

// holdUntil adds the end of the prefetched tokens' life, if there are any.
func (p *planned) holdUntil() {
	a := p.c.Ahead
	if a == nil {
		return
	}
	some := false
	for _, c := range a.Take {
		some = some || c.Milli > 0
	}
	if !some {
		return
	}
	until := bucket.AddSat(p.after.RF, min(a.Life, bucket.MaxAhead))
	// If writes overtake each other, this must not refuse the one sent first: most of them have the
	// same instant.
	if step := min(a.Life/untilSteps, 1000); step > 1 {
		until += step - 1 - (until-1)%step
	}
	until = max(until, p.image.HeldAfter(p.after.RF))
	if stored := p.image.HeldUntil; stored > until { // no sound clock has written it
		p.cond = append(p.cond, item.Compare(AttrHeldUntil, item.Eq, item.N(stored)))
	} else {
		p.cond = append(p.cond, heldNotAfter(until))
	}
	p.set(AttrHeldUntil, item.N(until))
	p.after.HeldUntil = until
}

// hold adds the held tokens of slot i, which is stored.
func (p *planned) hold(i int) {
	a, sl := p.c.Ahead, p.before.Slots[i]
	if a == nil || sl.Name == bucket.WCU {
		return
	}
	if ended, _ := Find(a.Ended, sl.Name); ended.Milli > 0 {
		p.add(namesOf(sl.Name).ended, ended.Milli)
	}
	take, held := a.takes(sl.Name), &p.after.Slots[i].Held
	if a.Mend {
		unspent := p.unspent(sl)
		*held = bucket.AddSat(unspent, take)
		p.u.SetLess = append(p.u.SetLess, item.Less{Name: namesOf(sl.Name).held,
			Value: p.c.Image.counter(&p.numbers, sl, -*held), Minus: namesOf(sl.Name).used})
		return
	}
	more := take
	if !p.begins { // a new generation has no declarations
		left, _ := Find(a.Left, sl.Name)
		declared, _ := Find(a.Declared, sl.Name)
		more += left.Milli - declared.Milli
	}
	*held = bucket.AddSat(*held, more)
	p.add(namesOf(sl.Name).held, -more)
}

// lowered reports whether held tokens bound the level of slot i, not the line.
func (p *planned) lowered(i int) bool {
	sl := p.before.Slots[i]
	j := p.image.Index(sl.Name)
	if j < 0 || p.image.Slots[j].Held <= 0 || !p.image.SomeHeld(p.image.RF) {
		return false
	}
	was := p.image.Slots[j]
	since := bucket.SubSat(p.before.RF, p.image.RF)
	return bucket.AddSat(was.Tokens, bucket.Potential(was.Rest, p.image.Rate(j), since)) > sl.Tokens
}

// unspent returns how much of the image's counter may be unspent at the instant of the charge.
func (p *planned) unspent(sl bucket.Slot) int64 {
	rf, image := p.before.RF, p.c.Image
	if image.State.HeldUntil <= rf {
		return 0
	}
	spent := p.c.Ahead.Spent
	if spent == nil || spent.Generation != image.Generation || spent.State.HeldUntil > rf {
		return sl.Held
	}
	j := spent.State.Index(sl.Name)
	if j < 0 {
		return sl.Held
	}
	since := sl.Used - spent.State.Slots[j].Used // counters wrap around
	return min(sl.Held, max(0, since))
}
