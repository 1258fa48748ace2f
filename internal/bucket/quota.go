package bucket

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// quota is the kind of limit that is whole again at the edge of a period, and else is a rate
// that refills nothing.
type quota struct{ rate }

// QuotaPeriod is the Period of every quota, in milliseconds. It decides nothing: Python
// clients store it, and none may be zero.
const QuotaPeriod = 1000

// EdgeMargin is how much later than its edge, in milliseconds, the period of a quota ends.
// Corrected clocks may still be ahead by as much. So a period is never opened early: in the second
// after the edge requests take the rest of the old one.
const EdgeMargin = 1000

// calendar returns the calendar of a quota, nil if it has none that can be read: then its
// period never ends.
func (l Limit) calendar() *calendar.Calendar {
	if l.Reset == "" {
		return nil
	}
	c, _ := calendar.Parse(l.Reset) // nil if it cannot be read
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

// edge returns how long after an instant a period is over that ends at end, 0: no one
// knows when.
func edge(at, end int64) int64 {
	if end == 0 || end == Never {
		return Never
	}
	return max(SubSat(AddSat(end, EdgeMargin), at), 1)
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

func (quota) does() behaviour { return behaviour{renews: true} }

func (quota) text(l Limit) string {
	return fmt.Sprintf("%s %s each %s", l.Name, Tokens(l.Capacity), l.Reset)
}

// begin returns the end of the period that an instant belongs to: one behind an edge by less
// than the margin belongs to the period before it.
func (quota) begin(l Limit, at int64) int64 { return l.Next(SubSat(at, EdgeMargin)) }

func (quota) edge(_, from, end int64) int64 { return edge(from, end) }

// divides is false for periods from the first use: on several shards they would begin at different
// times.
func (quota) divides(l Limit, count int) bool { return count == 1 || l.FirstUse() == 0 }

// pass makes the level whole at the edge, and begins the next period there.
func (q quota) pass(s State, i int, by passing) {
	if by.reset {
		s.Slots[i].Rest = 0
	}
	q.credit(s, i, by.from, by.to)
	switch sl := &s.Slots[i]; {
	case sl.End == 0:
	case !by.reset && by.to >= AddSat(sl.End, EdgeMargin), by.reset && sl.FirstUse() == 0:
		sl.enter(by.to)
		if is := sl.As(by.to).Limit; is != sl.Limit { // a raise has ended
			sl.become(is, s.share(&sl.Limit).Capacity, s.share(&is).Capacity, by.to)
		}
	case sl.FirstUse() > 0:
		sl.sound(by.to, by.reset)
	}
}

// adopt keeps spent tokens. Tokens that a soft limit granted into debt are spent all the same: 15
// of 10 leave nothing of 12.
func (quota) adopt(s State, i int, want Limit) {
	sl := &s.Slots[i]
	if want.Plan != "" && sl.SameEdges(want) { // the period goes on, whenever this process knows it to end
		want = want.inPeriod(sl.End)
	}
	forgive := sl.Soft && !want.Soft
	sl.become(want, s.share(&sl.Limit).Capacity, s.share(&want).Capacity, s.RF)
	if forgive {
		sl.Tokens = max(sl.Tokens, 0)
	}
}

// give puts the whole gift on top, until the period ends. One that is made whole begins another,
// and one from the first use that had none begins its period.
func (quota) give(s State, i int, g Gift) {
	sl := &s.Slots[i]
	switch n := sl.FirstUse(); {
	case g.Whole:
		sl.Tokens = AddSat(sl.Tokens, max(0, s.room(i)))
		if n == 0 {
			sl.Resets++
		} else if sl.End != 0 {
			sl.End = max(AddSat(s.RF, n), sl.End+1) // earlier tokens are of another period
		}
	case g.Milli > 0:
		sl.Tokens, sl.Extra = AddSat(sl.Tokens, g.Milli), AddSat(sl.Extra, g.Milli)
		if n > 0 && sl.End == 0 {
			sl.End = AddSat(s.RF, n)
		}
	}
}

func (quota) merge(s State, i int, other State, j int) {
	s.Slots[i].merge(other.Slots[j], s.share(&s.Slots[i].Limit).Capacity)
}

// end returns when the period of slot i ends, 0 for a rate and for a period that did not
// begin.
func (s State) end(i int) int64 {
	if sl := &s.Slots[i]; sl.End != 0 || !sl.kind().does().renews {
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

// sound bounds the period of a quota from the first use. A broken clock may have begun it in the
// future, or the clock of the state was mended: then it ends at most one period after the instant.
// The level stays.
func (sl *Slot) sound(to int64, mended bool) {
	if n := sl.FirstUse(); mended || SubSat(sl.End, n) > AddSat(to, MaxSkew) {
		sl.End = min(sl.End, AddSat(to, n))
	}
}

// Stored returns the state as an item stores it. The period of an item is the one that holds its
// refill instant. So just behind an edge, while the period before still goes on, the state is
// stored for the instant before the edge. The line of a rate is the same from there:
//
//	10 per second, 4 left half a second behind the edge: -1 at the edge, and 4 half a second later
//
// The write meter keeps its level, which others look at without the time.
func (s State) Stored() State {
	at := s.RF
	for i := range s.Slots {
		sl := &s.Slots[i]
		if end := s.end(i); end != 0 && end <= at && (sl.Renews() && sl.FirstUse() == 0 || sl.Plan != "") {
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
		if !sl.Refills() || sl.Name == WCU {
			continue
		}
		credit, rest := accrue(0, s.share(&sl.Limit), since)
		if sl.Tokens, sl.Rest = SubSat(sl.Tokens, credit), sl.Rest-rest; sl.Rest < 0 {
			sl.Tokens, sl.Rest = SubSat(sl.Tokens, 1), sl.Rest+sl.Period
		}
	}
	return s
}

// become turns the slot into a quota; from and to are the share's capacities before and after.
// Spent tokens stay spent. For a quota from the first use a period begins now: 3 of 10 left for an
// hour are whole again in an hour.
func (sl *Slot) become(want Limit, from, to, at int64) {
	if sl.Tokens = AddSat(sl.Tokens, SubSat(to, from)); sl.Reset == "" || sl.Extra == 0 {
		sl.Tokens = min(sl.Tokens, to)
	}
	if sl.Reset != want.Reset {
		sl.End = want.begin(at)
		if n := want.FirstUse(); n > 0 && sl.Tokens < to {
			sl.End = AddSat(at, n)
		}
	}
	sl.Limit, sl.Rest = want, 0
}

// merge adds the tokens of another shard, up to the share. Both are of the same period, or the
// other's is over: then it adds no more than it has left.
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
		if end := s.end(i); s.Slots[i].Renews() && end != 0 && end != Never && (first == 0 || end < first) {
			first = end
		}
	}
	return first
}

// NextEdge returns the first instant at which a period of the state ends, or its limits change by a schedule. It is
// 0 if there is none. ok is whether there is a limit with periods or a schedule.
func (s State) NextEdge() (edge int64, ok bool) {
	edge = s.PeriodEnd()
	for i := range s.Slots {
		sl := &s.Slots[i]
		ok = ok || sl.Renews()
		if sl.Plan != "" && sl.End != Never {
			ok = true
			if edge == 0 || sl.End < edge {
				edge = sl.End
			}
		}
	}
	return edge, ok
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
