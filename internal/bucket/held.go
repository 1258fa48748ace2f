package bucket

// MaxAhead is how long, in milliseconds, tokens that were taken ahead may be held at most.
const MaxAhead = 600_000

// HeldAfter returns the instant until which the slots' Held may be held, if that is after
// the instant at; else at. A later one than a sound clock writes means nothing.
func (s State) HeldAfter(at int64) int64 {
	if s.HeldUntil <= at || SubSat(s.HeldUntil, max(at, s.RF)) > MaxAhead+MaxSkew {
		return at
	}
	return s.HeldUntil
}

// SomeHeld reports whether tokens of any slot that were taken ahead may be held at the instant.
func (s State) SomeHeld(at int64) bool {
	if s.HeldAfter(at) > at {
		for i := range s.Slots {
			if s.Slots[i].Held > 0 {
				return true
			}
		}
	}
	return false
}

// Top returns how high the level of slot i may be at the instant of the state: its share of the
// capacity, less the held tokens. It is negative when more are held than the share, as after a
// split.
func (s State) Top(i int) int64 {
	top := s.Rate(i).Capacity
	if s.HeldAfter(s.RF) > s.RF {
		top = SubSat(top, s.Slots[i].Held)
	}
	return top
}

// refill returns the gain of slot i, with rest as its remainder, from one instant to another.
func (s State) refill(i int, rest, from, to int64) Gain {
	return s.Slots[i].kind().gain(s, i, rest, from, to)
}

// wait returns how long after the instant from slot i, with rest as its remainder, holds need, as [Wait] does.
// It looks past mostWaited edges of a schedule at most, and returns the last one if it does not then.
func (s State) wait(i int, rest, from, need int64) int64 {
	w := s.Slots[i].kind().wait(s, i, rest, from, need)
	if !s.edgeBy(i, AddSat(from, w)) || need > s.CapacityOf(s.Slots[i].Slowest()) {
		return w
	}
	sl := s.Slots[i]
	sl.Rest = rest
	one := State{Shard: s.Shard, Shards: s.Shards, RF: from, HeldUntil: s.HeldUntil, Slots: []Slot{sl}}
	for range mostWaited {
		at := AddSat(one.Slots[0].End, EdgeMargin)
		one = one.At(max(at, one.RF))
		sl = one.Slots[0]
		if w = sl.kind().wait(one, 0, sl.Rest, one.RF, need); !one.edgeBy(0, AddSat(one.RF, w)) {
			break
		}
		w = 0
	}
	return AddSat(SubSat(one.RF, from), w)
}

// mostWaited bounds how many edges of a schedule a wait looks past.
const mostWaited = 100

// WaitWith is Wait for a level of slot i by a limit that it may not have yet, while nothing is held.
func (s State) WaitWith(l Limit, i int, level, need int64) int64 {
	sl := s.Slots[i]
	if l.Plan == "" || !sl.Same(l) {
		return Wait(level, sl.Rest, s.RateOf(l), need)
	}
	sl.Tokens, sl.Held = level, 0
	return State{Shard: s.Shard, Shards: s.Shards, RF: s.RF, Slots: []Slot{sl}}.Wait(0, need)
}

// Wait returns how long after the instant of the state slot i holds need millitokens: zero
// if it does then, Never if no refill of this shard reaches it.
func (s State) Wait(i int, need int64) int64 { return s.wait(i, s.Slots[i].Rest, s.RF, need) }
