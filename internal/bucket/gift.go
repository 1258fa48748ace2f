package bucket

// Gift is an operator's gift to a limit.
type Gift struct {
	// Milli is how much, in millitokens. A rate takes as much as there is room for. A quota gets the
	// whole amount on top, until its period ends.
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

// room returns how many millitokens slot i has room for, its top-up included.
func (s State) room(i int) int64 {
	return SubSat(AddSat(s.Top(i), s.Slots[i].Extra), s.Slots[i].Tokens)
}
