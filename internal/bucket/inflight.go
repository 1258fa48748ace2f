package bucket

import "fmt"

// A limit of slots bounds how many millitokens may be at work at once. Nothing refills it. A holder
// gives its slot back, and the slot of a holder that died comes back by itself. Time is divided
// into epochs of the limit's Period. A state counts the millitokens taken in the present epoch and
// in the one before, and not given back:
//
//	level = capacity - taken in the present epoch - taken in the one before
//
// Older epochs are dropped. A holder that still works has moved its slots into the present epoch
// (see table.Renew). If it could not, it knows that it has lost them. So a slot of a holder that
// died counts for one epoch at least, and for two at most.
//
// Example: 10 slots, epochs of 30 s. At 40 s, in epoch 1, a process takes 4 and dies. From 90 s on,
// the beginning of epoch 3, they are free. A process that works until 100 s moves its slots into
// epoch 2, at 60 s or soon after it.

const (
	// MinEpoch is how short the epochs of a limit may be, in milliseconds.
	MinEpoch = 5_000
	// MaxEpoch is how long they may be.
	MaxEpoch = 600_000
	// epochs is how many epochs are counted: the present one, the one before, and the next one. The
	// count of the next is always zero, so a write need not know whether it is the first of an epoch.
	epochs = 3
)

// Taken counts the millitokens taken of a limit of slots and not given back, by the epoch modulo 3.
// The count of the next epoch is zero.
type Taken [epochs]int64

// EpochSlot returns the index of an epoch in [Taken].
func EpochSlot(epoch int64) int { return int((epoch%epochs + epochs) % epochs) }

// Of returns the count of an epoch; it must be the present one, the one before or the next one.
func (t Taken) Of(epoch int64) int64 { return t[EpochSlot(epoch)] }

// EpochAt returns the epoch of a limit of slots that holds an instant. Clocks may differ by
// [EdgeMargin]: no one is in a later epoch than it truly is.
func (l Limit) EpochAt(at int64) int64 {
	at -= EdgeMargin
	e := at / l.Period
	if at < 0 && at%l.Period != 0 {
		e--
	}
	return e
}

// EndOf returns when an epoch of a limit of slots ends.
func (l Limit) EndOf(epoch int64) int64 { return (epoch + 1) * l.Period }

// LostAt returns from when slots are lost that count in the epoch with an end and were not moved.
// By then nobody has forgotten that epoch, even if the clock of the holder is late by [EdgeMargin].
func (l Limit) LostAt(end int64) int64 { return end + l.Period - EdgeMargin }

// MovesAt returns from when slots that count in the epoch with an end may be moved into the
// next one.
func (l Limit) MovesAt(end int64) int64 { return end + EdgeMargin }

// Epoch returns the epoch of a limit of slots that ends at an instant.
func (l Limit) Epoch(end int64) int64 { return end/l.Period - 1 }

// Epoch returns the epoch of a limit of slots that the state knows as the present one.
func (sl Slot) Epoch() int64 { return sl.Limit.Epoch(sl.End) }

// busy returns the slots that will be at work in an epoch if no more are taken.
func (sl Slot) busy(epoch int64) int64 {
	switch n := epoch - sl.Epoch(); {
	case n <= 0:
		return AddSat(sl.Taken.Of(sl.Epoch()), sl.Taken.Of(sl.Epoch()-1))
	case n == 1:
		return sl.Taken.Of(sl.Epoch())
	}
	return 0
}

// Astray reports whether, seen from an instant, the epoch of a limit of slots lies so far in the
// future that no sound clock has begun it. Then all that it counts is at work in the present epoch.
func (sl Slot) Astray(now int64) bool {
	return sl.InFlight && SubSat(sl.End, now) > 3*MaxEpoch+MaxSkew
}

// slots is the kind of limit whose tokens come back.
type slots struct{}

func (slots) does() behaviour { return behaviour{returns: true} }

func (slots) text(l Limit) string {
	return fmt.Sprintf("%s %s at once, epochs of %dms", l.Name, Tokens(l.Capacity), l.Period)
}

func (slots) begin(l Limit, at int64) int64 { return l.EndOf(l.EpochAt(at)) }

// edge returns when all of it is free at the latest.
func (slots) edge(period, _, _ int64) int64 { return 2 * period }

// share leaves all slots to shard 0.
func (slots) share(whole int64, shard, _ int) int64 {
	if shard != 0 {
		return 0
	}
	return whole
}

func (slots) divides(_ Limit, count int) bool { return count == 1 }

// gain is what comes back by an instant without give-backs: the slots of epochs that are over then.
func (slots) gain(s State, i int, _, _, to int64) Gain {
	sl := s.Slots[i]
	return Gain{Credit: SubSat(SubSat(s.share(&sl.Limit).Capacity, sl.busy(sl.EpochAt(to))), sl.Tokens)}
}

func (slots) wait(s State, i int, _, from, need int64) int64 { return s.untilFreed(i, from, need) }

// pass brings the slots into the epoch that holds the present instant, or leaves them where they are
// if that is later already. It uses the clock itself: the instant of the state may be ahead of it.
func (slots) pass(s State, i int, by passing) {
	sl := &s.Slots[i]
	if sl.Astray(by.now) { // all that is at work counts in the present epoch
		busy, epoch := sl.busy(sl.Epoch()), sl.EpochAt(by.now)
		sl.Taken, sl.End = Taken{}, sl.EndOf(epoch)
		sl.Taken[EpochSlot(epoch)] = busy
	}
	for e, now := sl.Epoch(), sl.EpochAt(by.now); e < now; e++ {
		if now-e > epochs {
			sl.Taken, sl.End = Taken{}, sl.EndOf(now)
			break
		}
		sl.Taken[EpochSlot(e+2)] = 0 // it was the count of e-1
		sl.End = sl.EndOf(e + 1)
	}
	*sl = sl.Levelled(s)
}

// take counts a cost in the present epoch. A give-back lowers this count first, then the count of
// the epoch before.
func (slots) take(sl *Slot, cost int64) {
	sl.Tokens = SubSat(sl.Tokens, cost)
	now, before := &sl.Taken[EpochSlot(sl.Epoch())], &sl.Taken[EpochSlot(sl.Epoch()-1)]
	if *now = AddSat(*now, cost); *now < 0 {
		*before, *now = max(0, AddSat(*before, *now)), 0
	}
}

// adopt leaves slots at work until their epochs would have ended, in the first new epoch that lasts
// as long. So limits that alternate do not keep them for ever.
func (slots) adopt(s State, i int, want Limit) {
	sl := &s.Slots[i]
	was := *sl
	if sl.Limit = want; was.Period != want.Period {
		lasts := func(end int64) int64 { return (end-1)/want.Period + 1 - 2 } // the epoch of slots that count until an end
		old, now := lasts(was.End), lasts(was.End+was.Period)
		epoch := want.EpochAt(s.RF)
		if was.Taken.Of(was.Epoch()-1) > 0 {
			epoch = max(epoch, old)
		}
		if was.Taken.Of(was.Epoch()) > 0 {
			epoch = max(epoch, now)
		}
		sl.Taken, sl.End = Taken{}, want.EndOf(epoch)
		sl.Taken[EpochSlot(max(old, epoch-1))] = was.Taken.Of(was.Epoch() - 1)
		sl.Taken[EpochSlot(max(now, epoch-1))] += was.Taken.Of(was.Epoch())
	}
	*sl = sl.Levelled(s)
}

// give puts nothing in: slots are there when their holders are done.
func (slots) give(State, int, Gift) {}

func (slots) split(_, _, moved State, i int) {
	m := &moved.Slots[i]
	m.Taken, m.Tokens = Taken{}, 0
}

// merge adds nothing: no other shard has any.
func (slots) merge(State, int, State, int) {}

// empty leaves all slots at work in the present epoch.
func (slots) empty(s State, i int) {
	sl := &s.Slots[i]
	sl.Taken = Taken{}
	sl.Taken[EpochSlot(sl.Epoch())] = s.share(&sl.Limit).Capacity
	*sl = sl.Levelled(s)
}

// Levelled returns a limit of slots with its level computed from Taken, on the shard of a state.
func (sl Slot) Levelled(s State) Slot {
	sl.Tokens = SubSat(s.share(&sl.Limit).Capacity, sl.busy(sl.Epoch()))
	return sl
}

// untilFreed returns how long after an instant a limit of slots has a need at the latest, if
// nothing is given back. It is zero if the slots are there or none are needed, and Never if the
// limit has not so many.
func (s State) untilFreed(i int, from, need int64) int64 {
	sl, capacity := s.Slots[i], s.share(&s.Slots[i].Limit).Capacity
	switch {
	case need <= max(sl.Tokens, 0):
		return 0
	case need > capacity:
		return Never
	}
	for e := sl.Epoch() + 1; ; e++ {
		if need <= SubSat(capacity, sl.busy(e)) {
			return max(SubSat(e*sl.Period+EdgeMargin, from), 0)
		}
	}
}
