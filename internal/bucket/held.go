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

// wait returns how long after the instant from slot i, with rest as its remainder, holds
// need, as [Wait] does.
func (s State) wait(i int, rest, from, need int64) int64 {
	return s.Slots[i].kind().wait(s, i, rest, from, need)
}

// Wait returns how long after the instant of the state slot i holds need millitokens: zero
// if it does then, Never if no refill of this shard reaches it.
func (s State) Wait(i int, need int64) int64 { return s.wait(i, s.Slots[i].Rest, s.RF, need) }
