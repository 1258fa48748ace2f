package limiter

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Status is one limit in force of a bucket, as far as the caller's process knows
// it. It speaks of the whole bucket: shards that the process has not seen are taken
// to be as full as those it has. It has all that RateLimit headers need.
type Status struct {
	Entity   string // whose limit it is: of a cascade, parents have theirs
	Limit    string
	Capacity int64         // tokens
	Refill   int64         // tokens that come back every Period
	Period   time.Duration // of the refill
	// Remaining is how many tokens one request can have now, negative when the bucket is
	// in debt. Shards pay in whole tokens: 32 that hold 0.97 each have 31, and none to
	// give.
	Remaining int64
	// RetryAfter is how long until this limit alone would cover the cost of the
	// request that was denied: zero if it does now, negative if it never will. It is
	// zero in the status of a lease.
	RetryAfter time.Duration
	// RefillAfter is how long until Remaining is one more, if nobody takes or gives
	// back, and of a bucket of several shards about that; zero when the limit is full.
	RefillAfter time.Duration
	// ResetAfter is how long until the limit is full, if nobody takes or gives back;
	// zero when it is.
	ResetAfter time.Duration
	// Estimated tells that this process has not seen all shards of the bucket.
	Estimated bool
}

// statusOf returns the status of a limit whose level is known, in millitokens with
// the remainder of its refill.
func statusOf(entity string, l bucket.Limit, level, rest int64) Status {
	r := l.Whole()
	s := Status{
		Entity: entity, Limit: l.Name, Capacity: l.Capacity / bucket.Milli, Remaining: bucket.WholeTokens(level),
		Refill: l.Amount / bucket.Milli, Period: time.Duration(l.Period) * time.Millisecond,
		ResetAfter: wait(0, bucket.Wait(level, rest, r, l.Capacity)),
	}
	if next := (s.Remaining + 1) * bucket.Milli; next <= l.Capacity {
		s.RefillAfter = wait(0, bucket.Wait(level, rest, r, next))
	}
	return s
}

// status returns the status of the limits in force at now; the lock is held. If only
// some shards were seen, the level is extrapolated: two shards of four that hold 12
// together make 24.
func (k *known) status(entity string, costs []table.Cost, now int64) []Status {
	out := make([]Status, len(costs))
	for i, c := range costs {
		l := c.Limit
		level, rest, seen := int64(0), int64(0), int64(0)
		for n, s := range k.shards {
			if n >= k.count || !s.imaged() {
				continue
			}
			state := s.image.State
			part := state.RateOf(l).Capacity
			seen = bucket.AddSat(seen, part)
			if j := state.Index(l.Name); j >= 0 {
				part, rest = state.LevelAt(j, now)
			}
			level = bucket.AddSat(level, part)
		}
		if k.count > 1 {
			rest = 0
			if seen > 0 && seen < l.Capacity {
				level = int64(float64(level) * (float64(l.Capacity) / float64(seen)))
			}
		}
		out[i] = statusOf(entity, l, level, rest)
		if k.count > 1 {
			d := decider{known: k, want: want{costs: costs}, now: now}
			out[i].Remaining = min(out[i].Remaining, d.holds(l, now)/bucket.Milli)
		}
		out[i].Estimated = k.count > 1 && seen < l.Capacity
	}
	return out
}
