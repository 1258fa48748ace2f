package bucket

import "math"

// Gift is an operator's gift to a limit.
type Gift struct {
	// Milli is how much, in millitokens. A rate takes as much as there is room for. A quota gets the
	// whole amount on top, until its period ends. From a rate a negative one takes so much away.
	Milli int64
	// Whole makes the limit whole, whatever Milli says, and forgives debt. A quota keeps its top-up.
	Whole bool
}

// Full reports whether slot i has all the tokens of a new bucket: then it need not be stored.
func (s State) Full(i int) bool {
	return s.Slots[i].Tokens >= s.Rate(i).Capacity && s.Slots[i].Extra == 0
}

// Give puts gifts into the limits of a state, by name. A quota from the first use that had
// none begins its period with it, and one that is made whole begins another.
func (s State) Give(gifts map[string]Gift) State {
	s.Slots = append([]Slot(nil), s.Slots...)
	for i := range s.Slots {
		if g, ok := gifts[s.Slots[i].Name]; ok {
			s.Slots[i].kind().give(s, i, g)
		}
	}
	return s
}

// Drains returns the gifts after which no rate that denies holds anything at an instant: each takes away
// the tokens of that instant, and is negative. A rate that is still in debt then needs none. Repeated, or
// for several instants in any order, they do what the latest does. Example: a level of 10 is refilled by
// 1 per second. To hold nothing in 20 s, 30 are taken away, and the level is -20.
func (s State) Drains(until int64) map[string]Gift {
	out := map[string]Gift{}
	for i, sl := range s.Slots {
		if by := AddSat(sl.Tokens, s.potential(i, until)); sl.Drains() && by > 0 && by < Never {
			out[sl.Name] = Gift{Milli: -by}
		}
	}
	return out
}

// potential returns the gain of slot i until an instant, if there were no capacity.
func (s State) potential(i int, until int64) int64 {
	sl := s.Slots[i]
	if !s.edgeBy(i, until) {
		return Potential(sl.Rest, s.Rate(i), SubSat(until, s.RF))
	}
	const low = math.MinInt64 / 2 // from there no window is full
	sl.Tokens, sl.Held = low, 0
	one := State{Shard: s.Shard, Shards: s.Shards, RF: s.RF, Slots: []Slot{sl}}
	return one.At(until).Slots[0].Tokens - low
}

// Drains reports whether the limit can be drained: it refills, and denies.
func (l Limit) Drains() bool { return l.Refills() && !l.Soft && l.Name != WCU }

// room returns how many millitokens slot i has room for, its top-up included.
func (s State) room(i int) int64 {
	return SubSat(AddSat(s.Top(i), s.Slots[i].Extra), s.Slots[i].Tokens)
}
