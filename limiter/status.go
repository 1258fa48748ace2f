package limiter

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// Status is one limit in force of a bucket, as far as the caller's process knows it. It describes
// the whole bucket: shards that the process has not seen are assumed to be as full as those it has.
// It has everything that RateLimit headers need.
type Status struct {
	Entity   string // whose limit it is: of a cascade, parents have theirs
	Resource string // what it limits the use of: parts of a request have theirs
	Limit    string
	Capacity int64         // tokens
	Refill   int64         // tokens that come back every Period; 0: it is a quota
	Period   time.Duration // of the refill; 0: it is a quota
	// Remaining is how many tokens one request can have now, negative if the bucket is in debt.
	// Shards pay in whole tokens: 32 shards with 0.97 each add up to 31, but none of them can pay
	// one. For a blocked limit it is 0.
	Remaining int64
	// RetryAfter is the time until this limit alone would cover the cost of the denied request:
	// zero if it does now, negative if it never will. It is zero in the status of a lease.
	RetryAfter time.Duration
	// RefillAfter is the time until Remaining grows by one, if nobody takes or gives back;
	// approximate for a bucket of several shards, and zero if the limit is full. Held tokens leave
	// no room to refill until they are spent or expire. It is longer than a century, as is
	// ResetAfter, for a blocked limit, and for slots in use: the end of their requests is unknown.
	RefillAfter time.Duration
	// ResetAfter is the time until the limit is full, if nobody takes or gives back; zero if it is
	// full. For a quota it is the time until its period ends, even if nothing was taken; longer
	// than a century if that is unknown.
	ResetAfter time.Duration
	// ChangesAfter is the time until the schedule of the limit (see [Limit.During]), or the end of
	// a raise (Raise of package admin), changes Capacity, Refill or Period. The other times hold
	// until then. Zero: nothing changes them.
	ChangesAfter time.Duration
	// At is the instant that these times count from, by the clock that decides: the system's clock,
	// corrected by DynamoDB's answers. It is zero if nothing was looked up.
	At time.Time
	// InFlight: it is an in-flight limit, and Remaining is the number of free slots.
	InFlight bool
	// Held is the most tokens that processes may hold in addition to Remaining: taken ahead for
	// their next requests (see Options.Ahead), from the shards that this process has seen.
	Held int64
	// Estimated: this process has not seen all shards of the bucket.
	Estimated bool
	// Soft: the limit denies nothing.
	Soft bool
	// Floor is how many tokens the class of the request leaves to others, in addition to Remaining:
	// see [Limit.WithFloor]. A fraction of a token counts as one.
	Floor int64
}

// statuses returns the statuses of a bucket's levels.
func statuses(n decide.Name, levels []decide.Level) []Status {
	out := make([]Status, len(levels))
	for i, l := range levels {
		out[i] = statusOf(n, l)
	}
	return out
}

// statusOf returns the status of a level, by what the class of the request leaves of it.
func statusOf(n decide.Name, l decide.Level) Status {
	s := Status{
		Entity: n.Entity, Resource: n.Resource, Limit: l.Limit.Name, Capacity: l.Limit.Capacity / bucket.Milli,
		Refill: l.Limit.Amount / bucket.Milli, Remaining: l.Remaining, RetryAfter: wait(0, l.After),
		Soft: l.Limit.Soft, Estimated: l.Estimated,
	}
	if l.At != 0 {
		s.At = time.UnixMilli(l.At).UTC()
		if edge := l.Limit.Changes(l.At); edge != bucket.Never {
			s.ChangesAfter = wait(l.At, edge)
		}
	}
	floor := l.Floor
	if s.Soft {
		floor = 0
	}
	s.Floor = -bucket.WholeTokens(-floor)
	switch s.InFlight = l.Limit.Returns(); {
	case s.InFlight:
		if l.Milli < l.Limit.Capacity {
			s.RefillAfter, s.ResetAfter = longestWait, longestWait
		}
	case l.Limit.Renews():
		if s.ResetAfter = wait(0, l.Edge); l.Milli < l.Limit.Capacity {
			s.RefillAfter = s.ResetAfter
		}
	default:
		s.Period, s.Held = time.Duration(l.Limit.Period)*time.Millisecond, l.Held/bucket.Milli
		b := bucket.State{RF: 1, HeldUntil: bucket.AddSat(1, l.Over),
			Slots: []bucket.Slot{{Limit: l.Limit, Tokens: l.Milli, Rest: l.Rest, Held: l.Held}}}
		b.Slots[0].Plan = "" // as long as the limit in force holds
		s.ResetAfter = wait(0, b.Wait(0, l.Limit.Capacity))
		left := bucket.WholeAbove(l.Milli, floor)
		next := (left + 1) * bucket.Milli
		if left >= 0 { // else less is owed then, which needs no floor
			next = bucket.AddSat(next, floor)
		}
		if next <= l.Limit.Capacity {
			s.RefillAfter = wait(0, b.Wait(0, next))
		}
		if public(l.Limit).IsBlocked() { // nobody gets the token that it is stored with
			s.Remaining, s.RefillAfter, s.ResetAfter = 0, longestWait, longestWait
		}
	}
	return s
}

// longestWait is the longest Duration in whole milliseconds: 292 years.
const longestWait = math.MaxInt64 / time.Millisecond * time.Millisecond

// wait returns the time from one instant to a later one, at most the longest.
func wait(from, to int64) time.Duration {
	return time.Duration(min(bucket.SubSat(to, from), int64(longestWait/time.Millisecond))) * time.Millisecond
}
