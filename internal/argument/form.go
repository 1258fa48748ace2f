package argument

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Limit is a limit as callers have it, in whole tokens: limiter.Limit converts to it
// and back.
type Limit struct {
	Name             string
	Capacity, Refill int64
	Period           time.Duration
	Reset            string // the canonical form of a calendar, empty for a rate
	Soft             bool
	InFlight         bool // Capacity is how many at once, Period the length of the epochs
}

// Stored returns the limit as it is stored, in millitokens and milliseconds.
func (l Limit) Stored() bucket.Limit {
	if l.Reset != "" {
		return bucket.Limit{
			Name: l.Name, Capacity: l.Capacity * bucket.Milli, Period: bucket.QuotaPeriod, Reset: l.Reset,
			Soft: l.Soft,
		}
	}
	return bucket.Limit{
		Name: l.Name, Capacity: l.Capacity * bucket.Milli, Amount: l.Refill * bucket.Milli, Period: l.Period.Milliseconds(),
		Soft: l.Soft, AtOnce: l.InFlight,
	}
}

// LimitOf returns a stored limit as callers have it.
func LimitOf(l bucket.Limit) Limit {
	out := Limit{
		Name: l.Name, Capacity: l.Capacity / bucket.Milli, Refill: l.Amount / bucket.Milli, Reset: l.Reset, Soft: l.Soft,
		InFlight: l.AtOnce,
	}
	if !l.Quota() {
		out.Period = time.Duration(l.Period) * time.Millisecond
	}
	return out
}

// policies are the words for the policies that can be stored, by their value in
// limiter.Policy; PolicyDefault is that none is.
var policies = []string{"", table.OnUnavailableBlock, table.OnUnavailableAllow}

// PolicyOf returns the limiter.Policy that a word stands for. It is not ok, and
// PolicyDefault, if the word stands for none.
func PolicyOf[P ~int](word string) (p P, ok bool) {
	i := slices.Index(policies, word)
	return P(max(i, 0)), i >= 0
}

// PolicyWord returns the word for a limiter.Policy. It is not ok if that cannot be
// stored.
func PolicyWord[P ~int](p P) (word string, ok bool) {
	if p < 0 || int(p) >= len(policies) {
		return "", false
	}
	return policies[p], true
}
