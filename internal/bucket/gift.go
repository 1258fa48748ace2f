package bucket

// Gift is what an operator puts into a limit.
type Gift struct {
	// Milli is how much, in millitokens. A rate takes as much as there is room for. On a quota
	// all of it comes on top, until its period ends.
	Milli int64
	// Whole makes the limit whole, whatever Milli says, and forgives debt; of a quota with what
	// it was topped up by.
	Whole bool
}

// Full reports whether slot i holds what a new bucket would: what is full need not be stored.
func (s State) Full(i int) bool {
	return s.Slots[i].Tokens >= s.Rate(i).Capacity && s.Slots[i].Extra == 0
}

// Give puts gifts into the limits of a state, by name. A quota from the first use that had
// none begins its period with it, and one that is made whole begins another.
func (s State) Give(gifts map[string]Gift) State {
	s.Slots = append([]Slot(nil), s.Slots...)
	for i := range s.Slots {
		sl := &s.Slots[i]
		g, ok := gifts[sl.Name]
		room := SubSat(AddSat(s.Top(i), sl.Extra), sl.Tokens)
		switch n := sl.FirstUse(); {
		case !ok || sl.AtOnce:
		case !sl.Quota() && g.Whole:
			sl.Tokens = AddSat(sl.Tokens, max(0, room))
		case !sl.Quota():
			sl.Tokens = AddSat(sl.Tokens, max(0, min(g.Milli, room)))
		case g.Whole:
			sl.Tokens = AddSat(sl.Tokens, max(0, room))
			if n == 0 {
				sl.Resets++
			} else if sl.End != 0 {
				sl.End = max(AddSat(s.RF, n), sl.End+1) // what was taken before is of another period
			}
		case g.Milli > 0:
			sl.Tokens, sl.Extra = AddSat(sl.Tokens, g.Milli), AddSat(sl.Extra, g.Milli)
			if n > 0 && sl.End == 0 {
				sl.End = AddSat(s.RF, n)
			}
		}
	}
	return s
}
