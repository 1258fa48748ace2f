package bucket

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// A rate, or a quota by the calendar, may be raised: it has more tokens than its own, or than its schedule says,
// until an instant. While several raises last, their tokens add up. With more tokens of all raises together,
//
//	a rate    refills amount + more a period, up to capacity + floor(capacity * more / amount)
//	a quota   has capacity + more in each period that does not end after the raise
//
// so an empty rate takes as long to fill as before, and a raise of a quota ends at an edge of the quota. Example: 600
// a minute with a capacity of 1,000 and 300 more are 900 a minute with a capacity of 1,500. No parameter is raised
// above MaxTokens of package limiter.

// Raise is whole tokens more until an instant.
type Raise struct{ Tokens, End int64 }

// MaxRaises is how many raises a limit has at most.
const MaxRaises = 16

// mostRaised is how far a parameter is raised at most.
const mostRaised = calendar.MaxChange * Milli

// FormOfRaises returns raises as they are stored, in order of their ends: "500:1764547200000+200:1764633600000".
func FormOfRaises(raises []Raise) string {
	slices.SortStableFunc(raises, func(a, b Raise) int { return cmp.Compare(a.End, b.End) })
	parts := make([]string, len(raises))
	for i, r := range raises {
		parts[i] = fmt.Sprintf("%d:%d", r.Tokens, r.End)
	}
	return strings.Join(parts, "+")
}

// ParseRaises reads a form; the empty one has none.
func ParseRaises(form string) (out []Raise, err error) {
	if form == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(form, "+") {
		tokens, end, _ := strings.Cut(part, ":")
		n, _ := strconv.ParseInt(tokens, 10, 64)
		until, _ := strconv.ParseInt(end, 10, 64)
		if out = append(out, Raise{n, until}); n < 1 || n > calendar.MaxChange || until < 1 || until == Never ||
			len(out) > MaxRaises {
			return nil, fmt.Errorf("the raises %q: want at most %d, of tokens and ends in milliseconds, "+
				"as 500:1764547200000+200:1764633600000", form, MaxRaises)
		}
	}
	return out, nil
}

// LastingRaises returns the raises of a form that have not ended by an instant.
func LastingRaises(form string, now int64) []Raise {
	all, _ := ParseRaises(form)
	return slices.DeleteFunc(all, func(r Raise) bool { return now >= AddSat(r.End, EdgeMargin) })
}

// CanRaise reports whether the limit can be raised.
func (l Limit) CanRaise() bool { return !l.Returns() && l.FirstUse() == 0 }

// WithRaises returns the limit with its own parameters in force, and with other raises. One
// that cannot be raised has none.
func (l Limit) WithRaises(form string) Limit {
	if !l.CanRaise() {
		return l
	}
	return l.Own().planned(l.Schedule(), form)
}

// Raises returns the raises of the limit in their form, empty for none.
func (l Limit) Raises() string {
	_, raises := l.forms()
	return raises
}

// raisedAt returns how many tokens the raises of a form are at an instant, and when the first of them ends; Never:
// none lasts.
func raisedAt(form string, at int64) (tokens, end int64) {
	if end = Never; form == "" {
		return 0, end
	}
	for part := range strings.SplitSeq(form, "+") {
		n, until, _ := strings.Cut(part, ":")
		if ends, _ := strconv.ParseInt(until, 10, 64); ends > at {
			more, _ := strconv.ParseInt(n, 10, 64)
			tokens, end = AddSat(tokens, more), min(end, ends)
		}
	}
	return tokens, end
}

// raised returns the limit with more whole tokens.
func (l Limit) raised(tokens int64) Limit {
	more := min(tokens, calendar.MaxChange) * Milli
	if more == 0 {
		return l
	}
	raise := func(n, by int64) int64 { return max(n, min(AddSat(n, by), mostRaised)) }
	if l.Renews() {
		l.Capacity = raise(l.Capacity, more)
		return l
	}
	by := int64(mostRaised)
	if hi, lo := bits.Mul64(uint64(l.Capacity), uint64(more)); hi < uint64(l.Amount) {
		if quo, _ := bits.Div64(hi, lo, uint64(l.Amount)); quo < mostRaised {
			by = int64(quo)
		}
	}
	l.Capacity, l.Amount = raise(l.Capacity, by), raise(l.Amount, more)
	return l
}
