package bucket

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// WCU is the name of the infrastructure limit that every bucket shard carries.
// It counts the writes of the shard's partition and is never divided. Users cannot name a limit like this.
const WCU = "wcu"

// Denied is the name that counts denied requests, among the counters of the limits. It is empty, so
// no attribute of an item names a limit like this.
const Denied = ""

// WCUPerWrite is the cost of one write on WCU, in millitokens.
const WCUPerWrite = 1 * Milli

// WCULimit returns the infrastructure limit: 1000 writes per second, the most of one DynamoDB
// partition (AWS developer guide, "Best practices for designing partition keys").
func WCULimit() Limit {
	return Limit{Name: WCU, Capacity: 1000 * Milli, Amount: 1000 * Milli, Period: 1000}
}

// MaxSkew is how far, in milliseconds, a stored refill instant may lie in the
// future before it is taken for the mark of a broken clock.
const MaxSkew = 60_000

// State is one shard of a bucket: all its limits and the clock they share. The
// zero Shards means one shard. Slots are sorted by name and names are unique.
type State struct {
	Shard, Shards int
	RF            int64 // instant of the last refill
	NoClock       bool  // the item carries no refill instant: now is taken, nothing is credited
	HeldUntil     int64 // the instant until which prefetched tokens may be held; not after RF: none are
	Undivided     bool  // it has slots that the state does not show, so it is not split
	Slots         []Slot
}

// Count returns how many shards the bucket has by this one: one at least.
func (s State) Count() int { return max(s.Shards, 1) }

// New returns shard of shards with every limit full at now, wcu included.
func New(limits []Limit, shard, shards int, now int64) State {
	s := State{Shard: shard, Shards: shards, RF: now, Slots: make([]Slot, 0, len(limits)+1)}
	for _, l := range limits {
		s.Slots = append(s.Slots, s.fresh(l))
	}
	w := WCULimit()
	s.Slots = append(s.Slots, Slot{Limit: w, Tokens: w.Capacity})
	s.sort()
	return s
}

func (s *State) sort() {
	sort.Slice(s.Slots, func(i, j int) bool { return s.Slots[i].Name < s.Slots[j].Name })
}

// Index returns the position of the named slot, or -1.
func (s State) Index(name string) int {
	for i := range s.Slots {
		if s.Slots[i].Name == name {
			return i
		}
	}
	return -1
}

// Limits returns the limits of the slots, without the write meter.
func (s State) Limits() []Limit {
	out := make([]Limit, 0, len(s.Slots))
	for _, sl := range s.Slots {
		if sl.Name != WCU {
			out = append(out, sl.Limit)
		}
	}
	return out
}

// clock returns the instant to refill from and the instant refilled to. A
// stored instant slightly ahead of now stays (nothing is credited until now
// passes it); one further ahead than MaxSkew, or a missing one, is replaced by
// now without credit.
func (s State) clock(now int64) (from, to int64) {
	switch {
	case s.NoClock, SubSat(s.RF, now) > MaxSkew:
		return now, now
	case s.RF > now:
		return s.RF, s.RF
	}
	return s.RF, now
}

// At returns the state as it is at now. Every slot is refilled, wcu included, and cut to its
// capacity less the held tokens. The clock is moved to now. The clock never moves backwards, except
// away from an instant more than MaxSkew in the future, which is dropped without credit.
func (s State) At(now int64) State {
	from, to := s.clock(now)
	by := passing{from: from, to: to, now: now, reset: s.NoClock || to < s.RF}
	out := s
	out.RF, out.NoClock = to, false
	out.Slots = append([]Slot(nil), s.Slots...)
	for i := range out.Slots {
		out.Slots[i].End = s.end(i)
		out.Slots[i].kind().pass(out, i, by)
	}
	return out
}

// LevelAt returns the level of slot i at an instant, and the remainder.
func (s State) LevelAt(i int, at int64) (tokens, rest int64) {
	if s.edgeBy(i, at) {
		s = s.At(at)
	}
	sl := s.Slots[i]
	g := s.refill(i, sl.Rest, s.RF, max(at, s.RF))
	return AddSat(sl.Tokens, g.Credit), g.Rest
}

// Verdict is the answer to a request.
type Verdict struct {
	Granted bool
	// At is the instant from which the request is covered if nothing else
	// happens: now when granted, Never when no refill of this shard reaches it.
	At int64
	// Slot is the index of the slot that takes longest, -1 when granted.
	Slot int
}

// Decide reports whether the state, refilled until now, covers needs, and if not, when it will.
// needs[i] is the cost in millitokens of slot i; a cost of zero requires a level that is not
// negative, so debt denies. Decide ignores slots with a negative need, and soft limits.
func (s State) Decide(needs []int64, now int64) Verdict {
	for i := range s.Slots {
		if s.edgeBy(i, now) {
			s = s.At(now)
			break
		}
	}
	from, _ := s.clock(now)
	v := Verdict{Granted: true, At: now, Slot: -1}
	reset := s.NoClock || from < s.RF
	for i := range s.Slots {
		if needs[i] < 0 || s.Slots[i].Soft {
			continue
		}
		rest := s.Slots[i].Rest
		if reset {
			rest = 0
		}
		w := s.wait(i, rest, from, needs[i])
		if w == 0 {
			continue
		}
		at := min(AddSat(from, w), Never-1)
		if w == Never {
			at = Never
		}
		if at > now && at > v.At {
			v = Verdict{At: at, Slot: i}
		}
	}
	return v
}

// Take returns the state after charging costs (millitokens by slot, negative
// values give back) to levels and counters. It does not check anything. Counters
// wrap around: only their growth means something.
func (s State) Take(costs []int64) State { return s.TakeIn(nil, costs) }

// TakeIn is Take with room for the slots.
func (s State) TakeIn(room []Slot, costs []int64) State {
	out := s
	out.Slots = append(room, s.Slots...)
	for i := range out.Slots {
		out.Slots[i].kind().take(&out.Slots[i], costs[i])
	}
	return out
}

// FullAt returns an instant from which every slot but wcu is full if nothing is taken
// any more, or Never. Remainders are left out, so it is late by a millitoken at most.
func (s State) FullAt(now int64) int64 {
	from, _ := s.clock(now)
	at := now
	for i := range s.Slots {
		if s.Slots[i].Name == WCU {
			continue
		}
		if s.Slots[i].Plan != "" { // as long as it can take at all
			s.Slots = slices.Clone(s.Slots)
			s.Slots[i].Limit = s.Slots[i].Slowest()
			s.Slots[i].Plan = ""
		}
		r := s.Rate(i)
		w := s.wait(i, 0, from, r.Capacity)
		if s.Slots[i].Extra > 0 { // it ends with the period
			w = r.Edge
		}
		if w == Never {
			return Never
		}
		at = max(at, AddSat(from, w))
	}
	return at
}

// String returns the state on one line, for scripts and goldens.
func (s State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shard %d/%d rf=%d", s.Shard, s.Count(), s.RF)
	for i, sl := range s.Slots {
		r := s.Rate(i)
		fmt.Fprintf(&b, " %s=%s/%s", sl.Name, Tokens(sl.Tokens), Tokens(r.Capacity))
		if sl.Rest != 0 {
			fmt.Fprintf(&b, "+%d/%d", sl.Rest, sl.Period)
		}
	}
	return b.String()
}

// Tokens renders millitokens as tokens without trailing zeros: 1500 is "1.5".
func Tokens(milli int64) string {
	if milli%Milli == 0 {
		return fmt.Sprint(milli / Milli)
	}
	sign, whole, frac := "", milli/Milli, milli%Milli
	if milli < 0 {
		sign, whole, frac = "-", -whole, -frac
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%03d", sign, whole, frac), "0")
}
