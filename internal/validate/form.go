package validate

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
)

// Limit is a limit in the form of the public API, in whole tokens. It has the fields of
// limiter.Limit, with C for Calendar, so the two types convert to each other, and a field that only
// one of them has does not compile.
type Limit[C ~string] struct {
	Name             string
	Capacity, Refill int64
	Period           time.Duration
	Reset            C // the canonical form of a calendar, empty for a rate
	Soft             bool
	InFlight         bool // Capacity is how many at once, Period the length of an epoch
	Floors           string
	Ahead            time.Duration
	Schedule         string // of a rate
}

// Stored returns the limit in stored form, in millitokens and milliseconds.
func (l Limit[C]) Stored() bucket.Limit {
	if l.Reset != "" {
		return bucket.Limit{
			Name: l.Name, Capacity: l.Capacity * bucket.Milli, Period: bucket.QuotaPeriod, Reset: string(l.Reset),
			Soft: l.Soft, Floors: l.Floors, Ahead: l.Ahead.Milliseconds(),
		}
	}
	rate, _ := bucket.Limit{
		Name: l.Name, Capacity: l.Capacity * bucket.Milli, Amount: l.Refill * bucket.Milli, Period: l.Period.Milliseconds(),
		Soft: l.Soft, InFlight: l.InFlight, Floors: l.Floors, Ahead: l.Ahead.Milliseconds(),
	}.WithSchedule(l.Schedule)
	return rate
}

// LimitOf returns a stored limit in the form of the public API.
func LimitOf[C ~string](l bucket.Limit) Limit[C] {
	l = l.Own()
	out := Limit[C]{
		Name: l.Name, Capacity: l.Capacity / bucket.Milli, Refill: l.Amount / bucket.Milli, Reset: C(l.Reset), Soft: l.Soft,
		InFlight: l.InFlight, Floors: l.Floors, Ahead: time.Duration(l.Ahead) * time.Millisecond,
		Schedule: l.Schedule(),
	}
	if !l.Renews() {
		out.Period = time.Duration(l.Period) * time.Millisecond
	}
	return out
}

// LimitIn returns the limit that the details of an audit event describe; parse parses a calendar.
// Missing fields are zero, so the limit may be invalid.
func LimitIn[C ~string](details map[string]any, parse func(string) (C, error)) (l Limit[C]) {
	number := func(word string) int64 { n, _ := details[word].(int64); return n }
	l.Name, _ = details["name"].(string)
	l.Soft, _ = details["soft"].(bool)
	l.InFlight, _ = details["in_flight"].(bool)
	l.Floors, _ = details["floors"].(string)
	l.Schedule, _ = details["schedule"].(string)
	l.Capacity, l.Ahead = number("capacity"), time.Duration(number("ahead_milliseconds"))*time.Millisecond
	if reset, _ := details["reset"].(string); reset != "" {
		l.Reset, _ = parse(reset)
		return l
	}
	l.Refill, l.Period = number("refill_amount"), time.Duration(number("refill_period_seconds"))*time.Second
	return l
}

// policies are the words of the policies that can be stored, indexed by limiter.Policy;
// PolicyDefault means that none is stored.
var policies = []string{"", config.OnUnavailableBlock, config.OnUnavailableAllow}

// PolicyOf returns the limiter.Policy of a word. If there is none, it returns PolicyDefault and ok
// is false.
func PolicyOf[P ~int](word string) (p P, ok bool) {
	i := slices.Index(policies, word)
	return P(max(i, 0)), i >= 0
}

// PolicyWord returns the word of a limiter.Policy; ok is false if the policy cannot be stored.
func PolicyWord[P ~int](p P) (word string, ok bool) {
	if p < 0 || int(p) >= len(policies) {
		return "", false
	}
	return policies[p], true
}
