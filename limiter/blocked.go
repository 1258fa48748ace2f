package limiter

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// Unlimited returns a limit that counts and, in practice, denies nothing: MaxTokens can be
// taken at once and come back every second. It is stored like any other limit, and Python
// clients serve it.
func Unlimited(name string) Limit {
	return Limit{Name: name, Capacity: MaxTokens, Refill: MaxTokens, Period: time.Second}
}

// Blocked returns a limit that denies every request that takes anything from it, without a call
// to the table; a cost of zero passes. LimitError.Never is true then, and RetryAfter ten years. It is
// stored as one token every ten years, because every client needs a capacity above zero. Python
// clients do not know blocked limits: they grant that one token once per bucket.
func Blocked(name string) Limit {
	return Limit{Name: name, Capacity: 1, Refill: 1, Period: blockedPeriod}
}

// blockedPeriod distinguishes a blocked limit from the slowest that somebody may mean.
const blockedPeriod = maxPeriod - time.Second

// IsUnlimited reports whether the limit is [Unlimited], whatever its name.
func (l Limit) IsUnlimited() bool { l.Floors, l.Ahead = "", 0; return l == Unlimited(l.Name) }

// IsBlocked reports whether the limit is [Blocked], whatever its name.
func (l Limit) IsBlocked() bool { l.Floors, l.Ahead = "", 0; return l == Blocked(l.Name) }

// blocked returns the denial of a request that takes from a blocked limit, nil if
// it takes from none. Nothing is looked up for it: the statuses of the other limits
// are full.
func blocked(n decide.Name, costs Costs, limits []bucket.Limit) *LimitError {
	i := slices.IndexFunc(limits, func(l bucket.Limit) bool { return costs[l.Name] > 0 && public(l).IsBlocked() })
	if i < 0 {
		return nil
	}
	e := &LimitError{
		Entity: n.Entity, Resource: n.Resource, Limit: limits[i].Name, Wanted: costs[limits[i].Name],
		RetryAfter: blockedPeriod,
	}
	for _, l := range limits {
		s := statusOf(n, decide.Level{Limit: l, Milli: l.Capacity, Remaining: l.Capacity / bucket.Milli})
		if public(l).IsBlocked() {
			s.Remaining, s.RetryAfter, s.RefillAfter, s.ResetAfter = 0, -1, blockedPeriod, blockedPeriod
		}
		e.Statuses = append(e.Statuses, s)
	}
	return e
}
