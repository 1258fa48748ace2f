package bucket

// This file lists the kinds of limit: a rate, a quota, slots. Each is a type in a file of its own,
// rate.go, quota.go and inflight.go, with its own arithmetic. All other code asks whether a limit
// Refills, Renews or Returns. A new kind needs a type, a line in kind, and a field in Limit.

// Limit is one undivided limit. Without Reset it is a rate: up to Capacity millitokens, refilled by
// Amount millitokens every Period milliseconds. With Reset it is a quota: Capacity millitokens in
// each period of the calendar. With InFlight it is slots: Capacity millitokens at work at once.
type Limit struct {
	Name                     string
	Capacity, Amount, Period int64
	// Reset is the canonical form of a calendar (see package calendar); then Amount is 0
	// and Period is QuotaPeriod.
	Reset string
	// InFlight makes it slots; then Amount is 0, and Period is the length of the epochs.
	InFlight bool
	// Plan is of a rate with a schedule, see plan.go: all parameters that it may have.
	Plan   string
	Soft   bool   // counts the tokens taken, into debt, and denies nothing
	Floors string // of classes, see [Limit.Floor]; only configurations have them
	Ahead  int64  // how long, in ms, tokens that are taken ahead may be held; only configurations have it
}

// kind is the behaviour of one kind of limit. Methods that change slot i of a state may change the
// slots that they are given, and nothing else in the state.
type kind interface {
	// does describes the kind for code that need not know it.
	does() behaviour
	// text is the limit in tokens.
	text(l Limit) string
	// begin returns the end of the limit's period or epoch at an instant, which a slot keeps; 0: none.
	begin(l Limit, at int64) int64
	// edge returns after how many milliseconds from an instant all is there at the latest, given a
	// period and its end. It is 0 for a limit that refills bit by bit.
	edge(period, from, end int64) int64
	// share returns the part of a whole that one of so many shards has.
	share(whole int64, shard, shards int) int64
	// divides reports whether each of so many shards has a share to work with.
	divides(l Limit, count int) bool
	// gain returns the gain of slot i from one instant to another, with rest as its remainder.
	gain(s State, i int, rest, from, to int64) Gain
	// wait returns how long after an instant slot i has a need, as Wait does.
	wait(s State, i int, rest, from, need int64) int64
	// pass brings slot i to the instant of the state.
	pass(s State, i int, by passing)
	// take charges a cost; a negative one gives back.
	take(sl *Slot, cost int64)
	// adopt brings a limit of this kind in force for slot i, whose limit keeps the same account.
	adopt(s State, i int, want Limit)
	// give puts a gift into slot i.
	give(s State, i int, g Gift)
	// split divides slot i of s between slots i of two states, each of which has it whole.
	split(s, keep, moved State, i int)
	// merge adds slot j of another shard to slot i.
	merge(s State, i int, other State, j int)
	// empty leaves slot i with nothing to take.
	empty(s State, i int)
}

// behaviour has the answers of the methods of Limit of these names.
type behaviour struct{ refills, renews, returns bool }

// passing is the time that passes for a state: from its instant to another one by the clock now.
// reset says that its own clock was broken.
type passing struct {
	from, to, now int64
	reset         bool
}

// kind returns the kind of the limit.
func (l *Limit) kind() kind {
	switch {
	case l.InFlight:
		return slots{}
	case l.Reset != "":
		return quota{}
	}
	return rate{}
}

// Refills reports whether the level rises bit by bit all the time, by Amount each Period. Then it
// overflows when it is full, a debt is earned back, and the time alone gives the level. Rates do:
// 10 per second have 5 more after half a second. A quota gains nothing before its edge.
func (l Limit) Refills() bool { return l.kind().does().refills }

// Renews reports whether the limit has periods, and is whole again at their edge, all at once. Then
// give-backs and top-ups belong to one period, and usage is reported against the capacity. Quotas
// do: the rest of January's 1,000 a month is not there in February.
func (l Limit) Renews() bool { return l.kind().does().renews }

// Returns reports whether holders give their tokens back when they are done, and lose them when they
// fall silent. Then nothing counts as usage, nobody is in debt, and no clock predicts when
// something is free. Shard 0 has the whole limit. Slots do: 3 of 10 at work leave 7, for as long as
// they work.
func (l Limit) Returns() bool { return l.kind().does().returns }

// String returns the limit in tokens, for scripts and messages.
func (l Limit) String() string {
	s := l.kind().text(l)
	if l.Soft {
		s += " soft"
	}
	return s
}

// Slot is the stored state of one limit in one shard.
type Slot struct {
	Limit
	Tokens int64 // level in millitokens, negative when in debt
	Rest   int64 // remainder of the last refill, 0 <= Rest < Period
	Used   int64 // cumulative consumption counter (tc) in millitokens
	// Held is how much of Used is unspent at most: taken ahead, and not granted yet. It says
	// so from the instant of the state until its HeldUntil. Millitokens, not negative.
	Held int64
	// Ended is how much of Used was taken ahead and never granted: a counter that only grows.
	Ended int64
	// End is the instant at which the period of a quota ends. 0: for a rate; for a
	// calendar, the first edge after RF; for a period from the first use, that there was
	// none yet, and the level is whole. For slots, the instant at which the present epoch ends.
	End int64
	// Taken counts the slots taken; their level follows from it.
	Taken Taken
	// Extra is the top-up of a quota in its period, in millitokens.
	Extra int64
	// Resets counts how often an operator has made a quota by the calendar whole. Tokens taken
	// before a reset are not given back after it.
	Resets int64
	// PeriodPending is set for a quota from the first use if another shard began its period, and this
	// item does not store it yet.
	PeriodPending bool
}

// Spent returns the millitokens that usage counts: all taken, less those known to have ended
// unspent. Held tokens count until they are granted or have ended.
func (sl Slot) Spent() int64 { return sl.Used - sl.Ended }

// WholeAt returns the rate of the limit where it is not divided among shards, seen from an instant.
// Its period ends at end. If end is 0, the period ends as the calendar says, or is one that begins
// at the instant.
func (l Limit) WholeAt(at, end int64) Rate {
	if end == 0 {
		end = l.begin(at)
	}
	if n := l.FirstUse(); end == 0 && n > 0 {
		end = AddSat(at, n)
	}
	return Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period, Edge: l.kind().edge(l.Period, at, end)}
}

// Whole returns the rate of the limit where it is not divided among shards. The end of a quota's
// period is left open.
func (l Limit) Whole() Rate { return l.WholeAt(0, Never) }

// Rate returns the rate of slot i of this shard, seen from RF: its share of the limit.
func (s State) Rate(i int) Rate { return s.rate(i, s.RF) }

// rate is Rate seen from an instant.
func (s State) rate(i int, from int64) Rate {
	l := &s.Slots[i].Limit
	r := s.share(l)
	r.Edge = l.kind().edge(l.Period, from, s.end(i))
	return r
}

// RateOf returns this shard's share of a limit, stored or not, seen from RF.
func (s State) RateOf(l Limit) Rate {
	r := s.share(&l)
	if i := s.Index(l.Name); i >= 0 && s.Slots[i].SameEdges(l) {
		r.Edge = s.Rate(i).Edge
	} else {
		r.Edge = l.kind().edge(l.Period, s.RF, l.begin(s.RF))
	}
	return r
}

// SameEdges reports whether the periods of two limits end at the same instants, or neither has
// periods.
func (l Limit) SameEdges(o Limit) bool { return l.Reset == o.Reset }

// CapacityOf returns the capacity of this shard's share of a limit.
func (s State) CapacityOf(l Limit) int64 { return s.share(&l).Capacity }

// share returns this shard's share of a limit.
func (s State) share(l *Limit) Rate {
	r := Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}
	if l.Name != WCU {
		k := l.kind()
		r.Capacity, r.Amount = k.share(l.Capacity, s.Shard, s.Shards), k.share(l.Amount, s.Shard, s.Shards)
	}
	return r
}

// begin returns the end of the period or epoch that an instant belongs to, 0 if there is none.
func (l Limit) begin(at int64) int64 { return l.kind().begin(l, at) }

// divides reports whether the limit can be divided among that many shards.
func (l Limit) divides(count int) bool { return l.kind().divides(l, count) }

// fresh returns a limit as a shard begins with it: whole, in the period of the state.
func (s State) fresh(l Limit) Slot {
	l = l.InForce(s.RF)
	return Slot{Limit: l, Tokens: s.share(&l).Capacity, End: l.begin(s.RF)}
}

// Emptied returns the state holding nothing but a full write meter.
func (s State) Emptied() State {
	s.Slots, s.HeldUntil = append([]Slot(nil), s.Slots...), 0
	for i := range s.Slots {
		s.Slots[i].kind().empty(s, i)
	}
	return s
}
