package bucket

import "github.com/zeroae/zae-limiter-go/internal/calendar"

// This file knows what kinds of limit there are. All others go by a Rate: what the share
// of a limit refills by, seen from an instant.

// Rate is what one shard of a limit refills by: Amount millitokens every Period
// milliseconds up to Capacity millitokens. Period must be positive; Capacity
// and Amount must not be negative. With Amount zero nothing is credited bit by bit.
type Rate struct {
	Capacity, Amount, Period int64
	// Edge is after how many milliseconds a quota is whole again, all at once: Never if
	// that is not known. It is 0 for a rate, and more for every quota.
	Edge int64
}

// QuotaPeriod is the Period of every quota, in milliseconds. It decides nothing: Python
// clients store it, and none may be zero.
const QuotaPeriod = 1000

// EdgeMargin is how much later than its edge, in milliseconds, the period of a quota ends.
// It is what clocks that are corrected may still be ahead. So a period is never opened
// early: in the second after the edge requests take what the old one has left.
const EdgeMargin = 1000

// Quota reports whether the limit is one.
func (l Limit) Quota() bool { return l.Reset != "" }

// IsRate reports whether the limit refills all the time: neither a quota nor slots do, so they
// do not overflow, and what others have taken says nothing of what there will be.
func (l Limit) IsRate() bool { return !l.Quota() && !l.AtOnce }

// calendar returns the calendar of a quota, nil if it has none that can be read: then its
// period never ends.
func (l Limit) calendar() *calendar.Calendar {
	if !l.Quota() {
		return nil
	}
	c, err := calendar.Parse(l.Reset)
	if err != nil {
		return nil
	}
	return c
}

// FirstUse returns the length of the periods of a quota whose periods begin with the first
// use, in milliseconds; 0 for all others.
func (l Limit) FirstUse() int64 {
	if c := l.calendar(); c != nil {
		return c.After()
	}
	return 0
}

// Next returns the first edge after an instant; 0 for a limit that has none by a calendar.
func (l Limit) Next(at int64) int64 {
	c := l.calendar()
	if c == nil || c.After() > 0 {
		return 0
	}
	return c.Next(at)
}

// begin returns the end of the period that an instant belongs to: one behind an edge by less
// than the margin belongs to the period before it.
func (l Limit) begin(at int64) int64 {
	if l.AtOnce {
		return l.EndOf(l.EpochAt(at))
	}
	return l.Next(SubSat(at, EdgeMargin))
}

// WholeAt returns what the limit refills by where it is not divided among shards, seen from
// an instant; its period ends at end, or if that is 0, as the calendar says, or if it
// begins there.
func (l Limit) WholeAt(at, end int64) Rate {
	r := Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}
	if l.Quota() {
		if end == 0 {
			end = l.begin(at)
		}
		if n := l.FirstUse(); end == 0 && n > 0 {
			end = AddSat(at, n)
		}
		r.Edge = edge(at, end)
	}
	if l.AtOnce { // all of it at the latest then
		r.Edge = 2 * l.Period
	}
	return r
}

// Whole returns what the limit refills by where it is not divided among shards. When a
// quota's period ends is left open.
func (l Limit) Whole() Rate { return l.WholeAt(0, Never) }

// edge returns how long after an instant a period is over that ends at end, 0: no one
// knows when.
func edge(at, end int64) int64 {
	if end == 0 || end == Never {
		return Never
	}
	return max(SubSat(AddSat(end, EdgeMargin), at), 1)
}

// Rate returns what slot i of this shard refills by, seen from RF: its share of the limit.
func (s State) Rate(i int) Rate { return s.rate(i, s.RF) }

// rate is Rate seen from an instant.
func (s State) rate(i int, from int64) Rate {
	r := s.share(s.Slots[i].Limit)
	if s.Slots[i].Quota() {
		r.Edge = edge(from, s.end(i))
	}
	if s.Slots[i].AtOnce {
		r.Edge = 2 * s.Slots[i].Period
	}
	return r
}

// RateOf returns this shard's share of a limit, stored or not, seen from RF.
func (s State) RateOf(l Limit) Rate {
	r := s.share(l)
	if i := s.Index(l.Name); i >= 0 && s.Slots[i].Reset == l.Reset {
		r.Edge = s.Rate(i).Edge
	} else if l.Quota() {
		r.Edge = edge(s.RF, l.begin(s.RF))
	} else if l.AtOnce {
		r.Edge = 2 * l.Period
	}
	return r
}

// CapacityOf returns the capacity of this shard's share of a limit.
func (s State) CapacityOf(l Limit) int64 { return s.share(l).Capacity }

// share returns this shard's share of a limit.
func (s State) share(l Limit) Rate {
	if l.Name == WCU {
		return Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}
	}
	if l.AtOnce { // all slots are on shard 0
		r := Rate{Period: l.Period}
		if s.Shard == 0 {
			r.Capacity = l.Capacity
		}
		return r
	}
	return Rate{
		Capacity: Share(l.Capacity, s.Shard, s.Shards),
		Amount:   Share(l.Amount, s.Shard, s.Shards),
		Period:   l.Period,
	}
}

// atEdge is Refill for a quota. It gains nothing before its edge. From there on it is
// whole: 3 of 100 gain 97, and 120 of 100, which somebody had topped up, lose 20.
func (r Rate) atEdge(tokens, elapsed int64) Gain {
	if elapsed < r.Edge {
		return Gain{}
	}
	return Gain{Credit: SubSat(r.Capacity, tokens)}
}

// untilEdge is Wait for a quota. One that was topped up may cover more than its capacity.
func (r Rate) untilEdge(tokens, need int64) int64 {
	switch {
	case need <= tokens:
		return 0
	case need > r.Capacity:
		return Never
	}
	return r.Edge
}

// divides reports whether the limit can be divided among that many shards: a rate while
// each has some refill, a quota by the calendar always, one from the first use never,
// because its shards would begin at different times, and slots never.
func (l Limit) divides(count int) bool {
	if l.Quota() || l.AtOnce {
		return count == 1 || l.Quota() && l.FirstUse() == 0
	}
	return l.Amount/int64(count) >= 1
}

// end returns when the period of slot i ends, 0 for a rate and for a period that did not
// begin.
func (s State) end(i int) int64 {
	if sl := s.Slots[i]; sl.End != 0 || !sl.Quota() {
		return sl.End
	}
	return s.Slots[i].begin(s.RF)
}

// zonesApart bounds how far apart two processes know an edge to be that have different data of
// its zone, in milliseconds: no zone moves by more.
const zonesApart = 26 * 3600_000

// enter brings a quota into the period that an instant belongs to. Where the period before it
// ended at no edge of ours, somebody with other data of the zone has said so. If the edge of
// ours ahead is as near to that as the one behind, it is the same one, and begins nothing again:
//
//	ended at 10:00, where ours are at 11:00 each day: the next ends at 11:00 tomorrow
//	ended at 10:00, where ours are at 9:00 each day: it ends at 9:00 tomorrow
func (sl *Slot) enter(to int64) {
	was := sl.End
	sl.End, sl.Extra = sl.begin(to), 0
	if d := SubSat(sl.End, was); d > 0 && d <= zonesApart && sl.Next(was-d) == sl.End {
		sl.End = sl.Next(sl.End)
	}
}

// sound bounds the period of a quota from the first use: where a broken clock has begun it in
// the future, or the clock of the state was mended, it ends one period after the instant at
// the latest. What is left of it stays.
func (sl *Slot) sound(to int64, mended bool) {
	if n := sl.FirstUse(); mended || SubSat(sl.End, n) > AddSat(to, MaxSkew) {
		sl.End = min(sl.End, AddSat(to, n))
	}
}

// Stored returns the state as an item stores it. The period of an item is the one that holds
// its refill instant, so behind an edge, while the period before it goes on, the state is
// stored for the instant before the edge. The line of a rate is the same from there:
//
//	10 per second, 4 left half a second behind the edge: -1 at the edge, and 4 half a second later
//
// The write meter keeps its level, which others look at without the time.
func (s State) Stored() State {
	at := s.RF
	for i := range s.Slots {
		if end := s.end(i); end != 0 && end <= at && s.Slots[i].Quota() && s.Slots[i].FirstUse() == 0 {
			at = end - 1
		}
	}
	if at == s.RF {
		return s
	}
	since := SubSat(s.RF, at)
	s.RF, s.Slots = at, append([]Slot(nil), s.Slots...)
	for i := range s.Slots {
		sl := &s.Slots[i]
		sl.End = s.end(i)
		if sl.Quota() || sl.AtOnce || sl.Name == WCU {
			continue
		}
		credit, rest := accrue(0, s.share(sl.Limit), since)
		if sl.Tokens, sl.Rest = SubSat(sl.Tokens, credit), sl.Rest-rest; sl.Rest < 0 {
			sl.Tokens, sl.Rest = SubSat(sl.Tokens, 1), sl.Rest+sl.Period
		}
	}
	return s
}

// become changes what the slot is into a quota; from and to are the share's capacities
// before and after. What is spent stays spent.
func (sl *Slot) become(want Limit, from, to, at int64) {
	if sl.Tokens = AddSat(sl.Tokens, SubSat(to, from)); sl.Reset == "" || sl.Extra == 0 {
		sl.Tokens = min(sl.Tokens, to)
	}
	if sl.Reset != want.Reset {
		sl.End = want.begin(at)
	}
	sl.Limit, sl.Rest = want, 0
}

// merge adds what another shard holds, as far as the share goes. Both are of the same
// period, or the other's is over: then it adds no more than it has left.
func (sl *Slot) merge(o Slot, share int64) {
	sl.Extra = AddSat(sl.Extra, o.Extra)
	sl.Tokens = min(AddSat(sl.Tokens, o.Tokens), max(AddSat(share, sl.Extra), sl.Tokens))
	sl.End = max(sl.End, o.End)
}

// PeriodEnd returns when the period ends that the first edge of any quota of the state
// ends: until then no level is made whole. It is 0 if there is none.
func (s State) PeriodEnd() int64 {
	first := int64(0)
	for i := range s.Slots {
		if end := s.end(i); s.Slots[i].Quota() && end != 0 && end != Never && (first == 0 || end < first) {
			first = end
		}
	}
	return first
}

// Begin starts the periods of the quotas that begin with their first use, if one of the
// costs (millitokens by slot) is the first. The state must be good at its RF.
func (s State) Begin(costs []int64) State {
	for i, sl := range s.Slots {
		if n := sl.FirstUse(); n > 0 && sl.End == 0 && costs[i] > 0 {
			s.Slots = append([]Slot(nil), s.Slots...)
			s.Slots[i].End = s.RF + n
		}
	}
	return s
}
