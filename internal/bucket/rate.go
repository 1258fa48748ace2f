package bucket

import "fmt"

// Rate is the refill of one shard of a limit: Amount millitokens every Period milliseconds up to
// Capacity millitokens. Period must be positive; Capacity and Amount must not be negative. With
// Amount zero nothing is credited bit by bit.
type Rate struct {
	Capacity, Amount, Period int64
	// Edge is after how many milliseconds a quota is whole again, all at once: Never if
	// that is not known. It is 0 for a rate, and more for every quota.
	Edge int64
}

// rate is the kind of limit that refills bit by bit.
type rate struct{}

func (rate) does() behaviour { return behaviour{refills: true} }

func (rate) text(l Limit) string {
	return fmt.Sprintf("%s %s/%s every %dms", l.Name, Tokens(l.Capacity), Tokens(l.Amount), l.Period)
}

// begin returns the edge until which the limit in force of a schedule holds.
func (rate) begin(l Limit, at int64) int64 {
	if l.Plan == "" {
		return 0
	}
	return l.edgeAfter(SubSat(at, EdgeMargin))
}

func (rate) edge(_, _, _ int64) int64 { return 0 }

func (rate) share(whole int64, shard, shards int) int64 { return Share(whole, shard, shards) }

// divides holds while each share has some refill.
func (rate) divides(l Limit, count int) bool { return l.Amount/int64(count) >= 1 }

// gain returns the gain of slot i, with rest as its remainder, from one instant to another.
// Prefetched tokens may be unspent until HeldUntil. Together with them the limit must not be more
// than full at any instant, so until then it fills up to the capacity less the held tokens, and
// from there on as any other. Example: a capacity of 10, refilled by 1 per second, 4 held until 20
// s, a level of 5 at 15 s. The level is 6 at 16 s, at 17 s and at 20 s, and 8 at 22 s.
//
// Those 4 may be spent shortly before 20 s, and until then there is no room to refill. That is why
// the level does not jump to 10 at 20 s.
func (rate) gain(s State, i int, rest, from, to int64) Gain {
	tokens, r := s.Slots[i].Tokens, s.rate(i, from)
	until := s.HeldAfter(from)
	if until == from || s.Slots[i].Held <= 0 || r.Edge > 0 {
		return Refill(tokens, rest, r, SubSat(to, from))
	}
	low := r
	low.Capacity = SubSat(r.Capacity, s.Slots[i].Held)
	g := Refill(tokens, rest, low, SubSat(min(to, until), from))
	if to <= until {
		return g
	}
	more := Refill(AddSat(tokens, g.Credit), g.Rest, r, SubSat(to, until))
	return Gain{Credit: AddSat(g.Credit, more.Credit), Rest: more.Rest}
}

// wait returns how long after the instant from slot i, with rest as its remainder, holds
// need, as [Wait] does.
func (rate) wait(s State, i int, rest, from, need int64) int64 {
	tokens, r := s.Slots[i].Tokens, s.rate(i, from)
	until := s.HeldAfter(from)
	if until == from || s.Slots[i].Held <= 0 || r.Edge > 0 {
		return Wait(tokens, rest, r, need)
	}
	low := r
	low.Capacity = SubSat(r.Capacity, s.Slots[i].Held)
	if w := Wait(tokens, rest, low, need); w != Never {
		return w // held tokens leave room for need: the level gets there as any other does
	}
	g := Refill(tokens, rest, low, until-from)
	w := Wait(AddSat(tokens, g.Credit), g.Rest, r, need)
	if w == Never {
		return Never
	}
	return min(AddSat(until-from, w), Never-1)
}

func (k rate) pass(s State, i int, by passing) {
	if by.reset {
		s.Slots[i].Rest = 0
	}
	if s.Slots[i].Plan != "" {
		by = k.passEdges(s, i, by)
	}
	k.credit(s, i, by.from, by.to)
}

// credit refills slot i, as it is at an instant, until another one.
func (rate) credit(s State, i int, from, to int64) {
	sl := &s.Slots[i]
	g := s.refill(i, sl.Rest, from, to)
	sl.Tokens, sl.Rest = AddSat(sl.Tokens, g.Credit), g.Rest
}

func (rate) take(sl *Slot, cost int64) {
	sl.Tokens = SubSat(sl.Tokens, cost)
	sl.Used += cost
}

// adopt forgives the debt of a soft limit, which never denied for it.
func (rate) adopt(s State, i int, want Limit) {
	sl := &s.Slots[i]
	if sl.Soft && !want.Soft {
		sl.Tokens = max(sl.Tokens, 0)
	}
	sl.End, sl.Extra = want.begin(s.RF), 0
	lowered := want.Capacity < sl.Capacity
	sl.Rest = RescaleRest(sl.Rest, sl.Period, want.Period)
	sl.Limit = want
	sl.Held = min(sl.Held, want.Capacity) // tokens taken under the old capacity are no debt under the new one
	if lowered {
		sl.Tokens = min(sl.Tokens, s.Top(i))
	}
	if sl.Tokens >= s.Top(i) {
		sl.Rest = 0
	}
}

// give puts in as much as there is room for, or takes away.
func (rate) give(s State, i int, g Gift) {
	milli := max(0, s.room(i))
	if !g.Whole {
		milli = min(g.Milli, milli)
	}
	s.Slots[i].Tokens = AddSat(s.Slots[i].Tokens, milli)
}

func (rate) split(s, keep, moved State, i int) {
	sl, k, m := s.Slots[i], &keep.Slots[i], &moved.Slots[i]
	k.Extra, m.Extra = Halve(sl.Extra)
	if sl.Name == WCU {
		k.Tokens, m.Tokens = sl.Capacity, sl.Capacity
		k.Rest, m.Rest = 0, 0
		return
	}
	k.Tokens, m.Tokens = Halve(sl.Tokens)
	if top := keep.Top(i); sl.Held > 0 && sl.Refills() {
		m.Held = max(0, -top) // the new shard leaves room for the other held tokens
		// The new shard gets the tokens that the first has no room for. It keeps its half of a
		// debt: with a smaller one it would have tokens to spend while the whole would still be in
		// debt.
		if k.Tokens > top && sl.Tokens >= 0 {
			m.Tokens = min(SubSat(sl.Tokens, max(top, 0)), SubSat(moved.Rate(i).Capacity, m.Held))
		}
		k.Tokens = min(k.Tokens, top)
	}
	switch { // a shard that is full has no room for a remainder
	case m.Tokens >= moved.Rate(i).Capacity:
		k.Rest, m.Rest = sl.Rest, 0
	case k.Tokens >= keep.Top(i):
		k.Rest, m.Rest = 0, sl.Rest
	default:
		k.Rest, m.Rest = Halve(sl.Rest)
	}
}

func (rate) merge(s State, i int, other State, j int) {
	sl, o := &s.Slots[i], other.Slots[j]
	if other.HeldAfter(s.RF) > s.RF {
		sl.Held = AddSat(sl.Held, o.Held)
	}
	sl.Tokens = AddSat(sl.Tokens, o.Tokens)
	if sl.Rest += RescaleRest(o.Rest, o.Period, sl.Period); sl.Rest >= sl.Period {
		sl.Tokens, sl.Rest = AddSat(sl.Tokens, 1), sl.Rest-sl.Period
	}
}

func (rate) empty(s State, i int) {
	sl := &s.Slots[i]
	sl.Tokens, sl.Rest, sl.Used, sl.Held, sl.Ended = 0, 0, 0, 0, 0
	if sl.Name == WCU {
		sl.Tokens = sl.Capacity
	}
}
