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

// Top returns how high the level of slot i may be at the instant of the state: its share
// of the capacity, less what others may hold. It is negative when they hold more than the
// share, as after a split.
func (s State) Top(i int) int64 {
	top := s.Rate(i).Capacity
	if s.HeldAfter(s.RF) > s.RF {
		top = SubSat(top, s.Slots[i].Held)
	}
	return top
}

// refill returns what slot i, with rest as its remainder, gains from one instant to
// another. Tokens that were taken ahead of it may be unspent until HeldUntil, and with them
// it must not be more than full at any instant; so until then it fills up to capacity less
// those, and from there on as any other. A capacity of 10, refilled by 1 per second, with 4
// held until 20 s: a level of 5 at 15 s is 6 at 16 s, at 17 s and at 20 s, and 8 at 22 s.
//
// What is spent of those 4 shortly before 20 s was no room to refill before. That is why
// the level does not jump to 10 at 20 s.
func (s State) refill(i int, rest, from, to int64) Gain {
	if s.Slots[i].AtOnce {
		return Gain{Credit: s.freed(i, to)}
	}
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
func (s State) wait(i int, rest, from, need int64) int64 {
	if s.Slots[i].AtOnce {
		return s.untilFreed(i, from, need)
	}
	tokens, r := s.Slots[i].Tokens, s.rate(i, from)
	until := s.HeldAfter(from)
	if until == from || s.Slots[i].Held <= 0 || r.Edge > 0 {
		return Wait(tokens, rest, r, need)
	}
	low := r
	low.Capacity = SubSat(r.Capacity, s.Slots[i].Held)
	if w := Wait(tokens, rest, low, need); w <= until-from {
		return w
	}
	g := Refill(tokens, rest, low, until-from)
	w := Wait(AddSat(tokens, g.Credit), g.Rest, r, need)
	if w == Never {
		return Never
	}
	return min(AddSat(until-from, w), Never-1)
}

// Wait returns how long after the instant of the state slot i holds need millitokens: zero
// if it does then, Never if no refill of this shard reaches it.
func (s State) Wait(i int, need int64) int64 { return s.wait(i, s.Slots[i].Rest, s.RF, need) }
