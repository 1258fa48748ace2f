package loadcheck

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// Rule is a limit that may be in force from From to To, inclusive, in milliseconds: Capacity tokens
// at once, and Amount more tokens every Period milliseconds. Capacity and Amount must not be
// negative, Period must be positive.
type Rule struct {
	From, To                 int64
	Capacity, Amount, Period int64
}

func (r Rule) check() error {
	if r.Capacity < 0 || r.Capacity > maxTokens || r.Amount < 0 || r.Amount > maxTokens || r.Period < 1 ||
		r.Period > maxSpan {
		return fmt.Errorf("rule %+v: want capacity and amount of 0 to 2^53 and a period of 1 to 2^48 ms", r)
	}
	if r.From > r.To || r.From < 0 || r.To > maxSpan {
		return fmt.Errorf("rule %+v: want 0 <= from <= to <= 2^48", r)
	}
	return nil
}

func (r Rule) same(o Rule) bool {
	return r.Capacity == o.Capacity && r.Amount == o.Amount && r.Period == o.Period
}

// InForce returns when the observed rules may have been in force. Each sighting is a rule that was
// in force at some instant between From and To, the Sent and Answered of a grant. Between two
// successive sightings either of the two may be in force, but no third one. A limit that was
// changed and changed back without a grant in between is not noticed.
//
// Example: A was seen from 0 to 4 and from 10 to 14, B from 20 to 24. A may be in force up to 24, B
// from 10.
func InForce(sightings []Rule) []Rule {
	if len(sightings) == 0 {
		return nil
	}
	byEnd, byStart := slices.Clone(sightings), slices.Clone(sightings)
	slices.SortFunc(byEnd, func(a, b Rule) int { return cmp.Compare(a.To, b.To) })
	slices.SortFunc(byStart, func(a, b Rule) int { return cmp.Compare(a.From, b.From) })
	// latest[i] is the largest start among the first i by end, soonest[i] the smallest end from i
	// by start.
	latest, soonest := make([]int64, len(byEnd)+1), make([]int64, len(byEnd)+1)
	soonest[len(byEnd)] = maxSpan
	for i, r := range byEnd {
		latest[i+1] = max(latest[i], r.From)
	}
	for i := len(byStart) - 1; i >= 0; i-- {
		soonest[i] = min(soonest[i+1], byStart[i].To)
	}
	out := make([]Rule, 0, len(sightings))
	for _, r := range byStart {
		before := sort.Search(len(byEnd), func(i int) bool { return byEnd[i].To >= r.From })
		after := sort.Search(len(byStart), func(i int) bool { return byStart[i].From > r.To })
		wide := r
		wide.From, wide.To = latest[before], soonest[after]
		if i := slices.IndexFunc(out, wide.same); i >= 0 && wide.From <= out[i].To {
			out[i].To = max(out[i].To, wide.To) // byStart is sorted by From
			continue
		} else if i >= 0 { // disjoint from all before; the next is compared with this one
			out[i], wide = wide, out[i]
		}
		out = append(out, wide)
	}
	return out
}

// timeline is the allowance of the rules over time, in units of 1/unit tokens, in pieces of
// constant capacity and refill. Before the first and after the last piece, no rule is in force.
type timeline struct {
	unit int64 // a multiple of all periods
	skew int64
	from []int64 // where pieces begin, ascending
	caps []wide  // their capacity
	rate []int64 // their refill per millisecond
	sums []wide  // refill from the first piece until the start of this one
	live []bool  // a rule is in force
}

func newTimeline(b Bound) (*timeline, error) {
	l := &timeline{unit: 1, skew: b.Skew}
	for _, r := range b.Rules {
		hi, lo := bits.Mul64(uint64(l.unit/gcd(l.unit, r.Period)), uint64(r.Period))
		if hi > 0 || lo > maxSpan {
			return nil, fmt.Errorf("rule %+v: no common multiple of its period and the others' up to 2^48", r)
		}
		l.unit = int64(lo)
	}
	for _, r := range b.Rules {
		l.from = append(l.from, max(r.From-b.Skew, 0), r.To+b.Skew+1)
	}
	slices.Sort(l.from)
	l.from = slices.Compact(l.from)
	n := len(l.from)
	l.caps, l.rate, l.sums, l.live = make([]wide, n), make([]int64, n), make([]wide, n), make([]bool, n)
	for _, r := range b.Rules {
		hi, rate := bits.Mul64(uint64(r.Amount), uint64(l.unit/r.Period))
		if hi > 0 || rate > math.MaxInt64/2 {
			return nil, fmt.Errorf("rule %+v: refills too much to be counted with the others", r)
		}
		first, _ := slices.BinarySearch(l.from, r.From-b.Skew)
		for i := first; l.from[i] <= r.To+b.Skew; i++ {
			l.live[i], l.rate[i] = true, max(l.rate[i], int64(rate))
			if c := product(r.Capacity, l.unit); l.caps[i].less(c) {
				l.caps[i] = c
			}
		}
	}
	for i := 1; i < n; i++ {
		l.sums[i] = l.sums[i-1].add(product(l.rate[i-1], l.from[i]-l.from[i-1]))
	}
	return l, nil
}

// piece returns the piece that contains an instant, or -1 before the first.
func (l *timeline) piece(at int64) int {
	return sort.Search(len(l.from), func(i int) bool { return l.from[i] > at }) - 1
}

// refilled returns the total refill until an instant within a piece.
func (l *timeline) refilled(at int64) wide {
	i := l.piece(at)
	return l.sums[i].add(product(l.rate[i], at-l.from[i]))
}

// gap returns an instant between two others at which no rule is in force.
func (l *timeline) gap(from, to int64) (at int64, ok bool) {
	first := l.piece(from)
	if first < 0 {
		return from, true
	}
	for i := first; l.from[i] <= to; i++ { // no rule is in force in the last piece
		if !l.live[i] {
			return max(from, l.from[i]), true
		}
	}
	return 0, false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
