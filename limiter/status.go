package limiter

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// Status is one limit in force of a bucket, as far as the caller's process knows
// it. It speaks of the whole bucket: shards that the process has not seen are taken
// to be as full as those it has. It has all that RateLimit headers need.
type Status struct {
	Entity   string // whose limit it is: of a cascade, parents have theirs
	Resource string // what it limits the use of: parts of a request have theirs
	Limit    string
	Capacity int64         // tokens
	Refill   int64         // tokens that come back every Period; 0: it is a quota
	Period   time.Duration // of the refill; 0: it is a quota
	// Remaining is how many tokens one request can have now, negative when the bucket is
	// in debt. Shards pay in whole tokens: 32 that hold 0.97 each have 31, and none to
	// give.
	Remaining int64
	// RetryAfter is how long until this limit alone would cover the cost of the
	// request that was denied: zero if it does now, negative if it never will. It is
	// zero in the status of a lease.
	RetryAfter time.Duration
	// RefillAfter is how long until Remaining is one more, if nobody takes or gives back,
	// about so long for a bucket of several shards; zero when the limit is full. Held tokens
	// leave no room to refill until they are spent or expire.
	RefillAfter time.Duration
	// ResetAfter is how long until the limit is full, if nobody takes or gives back;
	// zero when it is. Of a quota it is how long until its period ends, also if nothing
	// was taken; longer than a century if nobody knows.
	ResetAfter time.Duration
	// ChangesAfter is how long until the schedule of the limit (see [Limit.During]), or the end of a raise
	// (Raise of package admin), changes Capacity, Refill or Period. Until then the other instants hold.
	// Zero: nothing changes them.
	ChangesAfter time.Duration
	// At is the instant that these count from, by the clock that decides: the system's,
	// corrected by the answers of DynamoDB. It is zero where nothing was looked up.
	At time.Time
	// InFlight: it is an in-flight limit, and Remaining is how many slots are free.
	// Nobody knows when others will be, so RefillAfter and ResetAfter are zero.
	InFlight bool
	// Held is how many tokens processes may hold at most besides Remaining: taken ahead of
	// their next requests (see Options.Ahead), from the shards that this process has seen.
	Held int64
	// Estimated: this process has not seen all shards of the bucket.
	Estimated bool
	// Soft: the limit denies nothing.
	Soft bool
	// Floor is how many tokens the class of the request leaves to others, besides Remaining:
	// see [Limit.WithFloor]. A part of a token counts as one.
	Floor int64
}

// statusOf returns the status of a limit whose level is known, in millitokens with
// the remainder of its refill. Edge is how long until a quota is whole again, in ms.
func statusOf(n decide.Name, l bucket.Limit, level, rest, edge int64) Status {
	r := l.Whole()
	s := Status{
		Entity: n.Entity, Resource: n.Resource, Limit: l.Name,
		Capacity: l.Capacity / bucket.Milli, Remaining: bucket.WholeTokens(level),
		Refill: l.Amount / bucket.Milli, Period: time.Duration(l.Period) * time.Millisecond,
		ResetAfter: wait(0, bucket.Wait(level, rest, r, l.Capacity)), Soft: l.Soft,
	}
	if s.InFlight = l.Returns(); s.InFlight {
		s.Period, s.ResetAfter = 0, 0
		return s
	}
	if l.Renews() {
		s.Period, s.ResetAfter = 0, wait(0, edge)
		if s.Remaining < s.Capacity {
			s.RefillAfter = s.ResetAfter
		}
		return s
	}
	if next := (s.Remaining + 1) * bucket.Milli; next <= l.Capacity {
		s.RefillAfter = wait(0, bucket.Wait(level, rest, r, next))
	}
	return s
}

// statuses returns the statuses of a bucket's levels.
func statuses(n decide.Name, levels []decide.Level) []Status {
	out := make([]Status, len(levels))
	for i, l := range levels {
		out[i] = statusOf(n, l.Limit, l.Milli, l.Rest, l.Edge)
		if l.At != 0 {
			out[i].At = time.UnixMilli(l.At).UTC()
			if edge := l.Limit.Changes(l.At); edge != bucket.Never {
				out[i].ChangesAfter = wait(l.At, edge)
			}
		}
		out[i].leaveRoom(l)
		out[i].leave(l.Floor, bucket.Slot{Limit: l.Limit, Tokens: l.Milli, Rest: l.Rest, Held: l.Held}, l.Over)
		out[i].Remaining, out[i].RetryAfter, out[i].Estimated = l.Remaining, wait(0, l.After), l.Estimated
	}
	return out
}

// leaveRoom sets the held tokens of a level, and how long the limit takes to be full with them.
func (s *Status) leaveRoom(l decide.Level) {
	if l.Held <= 0 || !l.Limit.Refills() {
		return
	}
	s.Held = l.Held / bucket.Milli
	b := bucket.State{RF: 1, HeldUntil: bucket.AddSat(1, l.Over),
		Slots: []bucket.Slot{{Limit: l.Limit, Tokens: l.Milli, Rest: l.Rest, Held: l.Held}}}
	s.ResetAfter = wait(0, b.Wait(0, l.Limit.Capacity))
	if next := (s.Remaining + 1) * bucket.Milli; next <= l.Limit.Capacity {
		s.RefillAfter = wait(0, b.Wait(0, next))
	}
}

// leave says what the class of the request leaves of a level, and how long until there is more
// above that; over is how long until nothing is held.
func (s *Status) leave(floor int64, sl bucket.Slot, over int64) {
	if floor == 0 || s.Soft {
		return
	}
	s.Floor, s.Remaining = -bucket.WholeTokens(-floor), bucket.WholeAbove(sl.Tokens, floor)
	if s.Refill == 0 {
		return
	}
	s.RefillAfter = 0
	b := bucket.State{RF: 1, HeldUntil: bucket.AddSat(1, over), Slots: []bucket.Slot{sl}}
	next := (s.Remaining + 1) * bucket.Milli
	if s.Remaining >= 0 { // else less is owed then, which needs no floor
		next = bucket.AddSat(next, floor)
	}
	if next <= sl.Capacity {
		s.RefillAfter = wait(0, b.Wait(0, next))
	}
}

// longestWait is what a Duration holds, in whole milliseconds: 292 years.
const longestWait = math.MaxInt64 / time.Millisecond * time.Millisecond

// wait returns the time from one instant to a later one, at most the longest.
func wait(from, to int64) time.Duration {
	return time.Duration(min(bucket.SubSat(to, from), int64(longestWait/time.Millisecond))) * time.Millisecond
}
