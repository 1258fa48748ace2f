package bucket

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// A rate may have a schedule: other parameters while windows of time last, see [calendar.Schedule]. Capacity,
// Amount and Period of such a limit are those in force, and Plan is all that there is to choose from: its own
// parameters, which items and configurations store, and the schedule.
//
//	60 a minute, twice that from nine to five:  Plan "60000 60000 60000 h9-16s2000@UTC"
//
// The End of a slot is the edge of a window at which its limit ceases to be in force. As at the edge of a quota, the
// limit changes a little later, see [EdgeMargin]: then the state takes over the next one, as if somebody had changed
// the limit at that instant (see [State.Adopt]). What came back before has come back at the rate before, a lowered
// capacity cuts the level, and a raised one adds nothing.

// Behind the schedule are the raises, see raise.go. A quota may have these only, and its limit in force changes at
// its own edges.

// plan is a Plan that was read.
type plan struct {
	own      Limit              // only the parameters
	schedule *calendar.Schedule // nil: none
	raises   string
}

// WithSchedule returns a rate with its own parameters in force, and a schedule in the form of package calendar. The
// empty schedule is none.
func (l Limit) WithSchedule(form string) (Limit, error) {
	l = l.Own()
	if l.Plan = ""; form == "" {
		return l, nil
	}
	if _, err := calendar.ParseSchedule(form); err != nil {
		return l, err
	}
	return l.planned(form, ""), nil
}

// planned returns a limit with its own parameters in force, and with a plan.
func (l Limit) planned(schedule, raises string) Limit {
	if l.Plan = ""; schedule != "" || raises != "" {
		l.Plan = strings.TrimRight(fmt.Sprintf("%d %d %d %s %s", l.Capacity, l.Amount, l.Period, schedule, raises), " ")
	}
	return l
}

// Schedule returns the schedule of a rate in the form of package calendar, empty for none.
func (l Limit) Schedule() string {
	schedule, _ := l.forms()
	return schedule
}

// forms returns the schedule and the raises of the Plan.
func (l Limit) forms() (schedule, raises string) {
	rest := l.Plan
	for range 3 {
		_, rest, _ = strings.Cut(rest, " ")
	}
	schedule, raises, _ = strings.Cut(rest, " ")
	return schedule, raises
}

// plan reads the Plan, which there is, as planned has written it.
func (l Limit) plan() plan {
	p, rest := plan{own: l}, l.Plan
	for _, to := range [...]*int64{&p.own.Capacity, &p.own.Amount, &p.own.Period} {
		var n string
		n, rest, _ = strings.Cut(rest, " ")
		*to, _ = strconv.ParseInt(n, 10, 64)
	}
	form, raises, _ := strings.Cut(rest, " ")
	if p.raises = raises; form != "" {
		p.schedule, _ = calendar.ParseSchedule(form)
	}
	return p
}

// with returns the limit with the parameters of another one.
func (l Limit) with(o Limit) Limit {
	l.Capacity, l.Amount, l.Period = o.Capacity, o.Amount, o.Period
	return l
}

// Own returns the limit with its own parameters in force, those outside all windows.
func (l Limit) Own() Limit {
	if l.Plan == "" {
		return l
	}
	return l.with(l.plan().own)
}

// in returns the limit with the parameters that its plan has at an instant.
func (l Limit) in(at int64) Limit {
	if l.Plan == "" {
		return l
	}
	p := l.plan()
	is := p.own
	if p.schedule != nil {
		is = is.changed(p.schedule.At(at))
	}
	more, _ := raisedAt(p.raises, at)
	return l.with(is.raised(more))
}

// InForce returns the limit as it is in force at an instant: behind an edge by less than the margin, as before it.
func (l Limit) InForce(at int64) Limit {
	if at = SubSat(at, EdgeMargin); l.Plan != "" && l.Renews() {
		return l.inPeriod(l.Next(at))
	}
	return l.in(at)
}

// inPeriod returns a quota as it is in the period with an end.
func (l Limit) inPeriod(end int64) Limit { return l.in(end - 1) }

// edgeAfter returns the first edge of the plan after an instant; Never: there is none.
func (l Limit) edgeAfter(at int64) int64 {
	if l.Plan == "" {
		return Never
	}
	p := l.plan()
	_, edge := raisedAt(p.raises, at)
	if p.schedule != nil {
		edge = min(edge, p.schedule.Next(at))
	}
	return edge
}

// Changes returns when the limit in force at an instant ceases to be; Never: there is no such time.
func (l Limit) Changes(at int64) int64 {
	return AddSat(l.edgeAfter(SubSat(at, EdgeMargin)), EdgeMargin)
}

// As returns the slot of an item with a refill instant, with the parameters and the edge of its plan. The edge of a
// quota is there.
func (sl Slot) As(rf int64) Slot {
	if sl.Plan != "" && sl.Renews() {
		sl.Limit = sl.inPeriod(sl.End)
	} else if sl.Plan != "" {
		sl.Limit, sl.End = sl.in(rf), sl.edgeAfter(rf)
	}
	return sl
}

// Same reports whether two limits are the same, whatever is in force of their schedules.
func (l Limit) Same(o Limit) bool {
	return l == o || l.Plan != "" && l.Plan == o.Plan && l.with(o) == o
}

// Most returns the limit with the largest parameters that its schedule has, Slowest with the largest capacity and the
// slowest refill, and least with the smallest capacity and amount.
func (l Limit) Most() Limit {
	l.each(func(is Limit) {
		l.Capacity, l.Amount, l.Period = max(l.Capacity, is.Capacity), max(l.Amount, is.Amount), max(l.Period, is.Period)
	})
	return l
}

// Slowest is described with Most.
func (l Limit) Slowest() Limit {
	l.each(func(is Limit) {
		l.Capacity = max(l.Capacity, is.Capacity)
		if float64(is.Amount)/float64(is.Period) < float64(l.Amount)/float64(l.Period) {
			l.Amount, l.Period = is.Amount, is.Period
		}
	})
	return l
}

func (l Limit) least() Limit {
	l.each(func(is Limit) { l.Capacity, l.Amount = min(l.Capacity, is.Capacity), min(l.Amount, is.Amount) })
	return l
}

// each yields the limit as it is outside all windows and in each, with all raises and without.
func (l Limit) each(yield func(Limit)) {
	if l.Plan == "" {
		return
	}
	p := l.plan()
	all := []calendar.Change{{}}
	if p.schedule != nil {
		all = append(all, p.schedule.Changes()...)
	}
	more, _ := raisedAt(p.raises, -1)
	for _, c := range all {
		is := p.own.changed(c)
		yield(l.with(is))
		yield(l.with(is.raised(more)))
	}
}

// changed returns the limit with the parameters of a window. A scale is applied as the Python client does, in
// floating point and rounded down, to one millitoken at least.
func (l Limit) changed(c calendar.Change) Limit {
	if c.Scale != 0 {
		by := float64(c.Scale) / 1000
		scaled := func(n int64) int64 { return max(1, int64(min(float64(n)*by, math.MaxInt64/2))) }
		l.Capacity, l.Amount = scaled(l.Capacity), scaled(l.Amount)
	}
	for _, set := range [...]struct {
		to      *int64
		n, unit int64
	}{{&l.Capacity, c.Capacity, Milli}, {&l.Amount, c.Refill, Milli}, {&l.Period, c.Period, 1000}} {
		if set.n != 0 {
			*set.to = set.n * set.unit
		}
	}
	return l
}

// mostEdges bounds how many edges of windows a state passes at once. Behind them it gains nothing until its next
// write: a bucket that nobody has used for so many edges is full in all but odd schedules.
const mostEdges = 1000

// passEdges brings slot i, as it is at by.from, to the last edge at which its limit changes until by.to, and returns
// the rest of the time.
func (k rate) passEdges(s State, i int, by passing) passing {
	sl := &s.Slots[i]
	enter := func(at, edge int64) {
		s.RF, by.from = at, at
		k.adopt(s, i, sl.in(edge))
		sl.End = sl.edgeAfter(edge)
	}
	if by.reset {
		enter(by.to, SubSat(by.to, EdgeMargin))
		return by
	}
	for range mostEdges {
		if !s.edgeBy(i, by.to) {
			return by
		}
		at := max(by.from, sl.End+EdgeMargin)
		k.credit(s, i, by.from, at)
		enter(at, sl.End)
	}
	enter(by.to, SubSat(by.to, EdgeMargin))
	return by
}

// edgeBy reports whether the limit of slot i changes by its plan until an instant.
func (s State) edgeBy(i int, at int64) bool {
	sl := &s.Slots[i]
	return sl.Plan != "" && sl.End != Never && SubSat(at, EdgeMargin) >= sl.End &&
		(!sl.Renews() || sl.edgeAfter(sl.End-1) != Never)
}
