package bucket

import (
	"math/bits"
	"slices"
)

// Adopt returns the state with a limit in force. Call it on a state refilled to now, so that the
// time before the change is credited at the old rate. A limit that is new to the bucket starts with
// its full share; a raised capacity adds no tokens; a lowered one cuts the level. A quota's spent
// tokens stay spent: 900 left of 1,000 become 1,900 of 2,000, and 400 of 500. The debt of a soft
// limit ends with it: the next limit may deny for lack of tokens, but not for requests that were
// never denied. changed reports whether anything differs.
func (s State) Adopt(want Limit) (out State, changed bool) {
	if want = want.Bare(); s.Has(want) {
		return s, false
	}
	want = want.InForce(s.RF)
	out = s
	out.Slots = append([]Slot(nil), s.Slots...)
	i := out.Index(want.Name)
	if i < 0 {
		out.Slots = append(out.Slots, s.fresh(want))
		out.sort()
		return out, true
	}
	if sl := &out.Slots[i]; sl.Returns() != want.Returns() { // nothing of the one says anything of the other
		*sl = s.fresh(want)
	} else {
		want.kind().adopt(out, i, want)
	}
	return out, true
}

// Has reports whether the limit is stored exactly like this.
func (s State) Has(want Limit) bool {
	i := s.Index(want.Name)
	return i >= 0 && s.Slots[i].Same(want.Bare())
}

// Matches reports whether every wanted limit is stored exactly like this.
func (s State) Matches(want []Limit) bool {
	for _, l := range want {
		if !s.Has(l) {
			return false
		}
	}
	return true
}

// SameLimits reports whether two states have the same limits, by name, whatever is in force of their schedules.
func (s State) SameLimits(o State) bool {
	return slices.EqualFunc(s.Slots, o.Slots, func(a, b Slot) bool { return a.Same(b.Limit) })
}

// TTLSeconds returns how many seconds after now an unsplit bucket may expire. By the rule of the
// Python client that is the longest time that one of its limits takes to fill from empty, times
// multiplier, rounded down. Zero or less means that it must not expire. The quotient is formed in
// floating point because the rule is defined that way; nothing but the lifetime of an idle item
// depends on it.
func (s State) TTLSeconds(multiplier int) int64 {
	longest := 0.0
	for _, l := range s.Slots {
		if l.Name == WCU || !l.Refills() { // a quota is full at an instant that its bucket outlives anyway
			continue
		}
		if l.Amount <= 0 {
			return 0
		}
		l.Limit = l.Slowest()
		fill := float64(l.Capacity) / float64(l.Amount) * (float64(l.Period) / 1000)
		longest = max(longest, fill)
	}
	return int64(longest * float64(multiplier))
}

// RescaleRest carries a remainder over from one period to another, rounding
// down, so that it stays below the new period and mints nothing.
func RescaleRest(rest, from, to int64) int64 {
	if from == to || from <= 0 {
		return rest
	}
	hi, lo := bits.Mul64(uint64(rest), uint64(to))
	if hi >= uint64(from) {
		return 0
	}
	quo, _ := bits.Div64(hi, lo, uint64(from))
	return min(int64(quo), to-1)
}
