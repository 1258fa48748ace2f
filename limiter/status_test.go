package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// What a status says of a level that processes hold a part of, or of which the class of the request
// leaves a part to others.
func TestStatusesOfLevels(t *testing.T) {
	rate := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 1000, Period: 1000}
	soft, daily := rate, bucket.Limit{Name: "rpd", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	soft.Soft = true
	slow := bucket.Limit{Name: "slow", Capacity: 10_000, Amount: 1000, Period: 10_000_000} // 10 s for a thousandth
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		level decide.Level
		want  Status
	}{
		"nothing held": {decide.Level{Limit: rate, Milli: 4500, Remaining: 4},
			Status{Remaining: 4, RefillAfter: 500 * time.Millisecond, ResetAfter: 5500 * time.Millisecond}},
		"2 held for a minute": {decide.Level{Limit: rate, Milli: 4500, Remaining: 4, Held: 2000, Over: 60_000},
			Status{Remaining: 4, Held: 2, RefillAfter: 500 * time.Millisecond, ResetAfter: 62 * time.Second}},
		"what is held leaves no room": {decide.Level{Limit: rate, Milli: 8000, Remaining: 8, Held: 2000, Over: 60_000},
			Status{Remaining: 8, Held: 2, RefillAfter: 61 * time.Second, ResetAfter: 62 * time.Second}},
		"half of a thousandth, 2 held for a second": {decide.Level{Limit: slow, Milli: 4999, Rest: 5_000_000, Remaining: 4,
			Held: 2000, Over: 1000},
			Status{Remaining: 4, Held: 2, RefillAfter: 5 * time.Second, ResetAfter: 50_005 * time.Second}},
		"a floor of 2.5": {decide.Level{Limit: rate, Milli: 4000, Floor: 2500, Remaining: 1},
			Status{Remaining: 1, Floor: 3, RefillAfter: 500 * time.Millisecond, ResetAfter: 6 * time.Second}},
		"a soft limit leaves no floor": {decide.Level{Limit: soft, Milli: 4000, Floor: 2500, Remaining: 4},
			Status{Remaining: 4, Soft: true, RefillAfter: time.Second, ResetAfter: 6 * time.Second}},
		"a quota": {decide.Level{Limit: daily, Milli: 4000, Remaining: 4, Edge: day.Milliseconds()},
			Status{Remaining: 4, RefillAfter: day, ResetAfter: day}},
		"a quota with a floor": {
			decide.Level{Limit: daily, Milli: 4000, Floor: 3000, Remaining: 1, Edge: day.Milliseconds()},
			Status{Remaining: 1, Floor: 3, RefillAfter: day, ResetAfter: day}},
		"in debt, with a floor": {decide.Level{Limit: rate, Milli: -1500, Floor: 2500, Remaining: -2},
			Status{Remaining: -2, Floor: 3, RefillAfter: 500 * time.Millisecond, ResetAfter: 11_500 * time.Millisecond}},
		"a floor that leaves the last token": {decide.Level{Limit: rate, Milli: 10_000, Floor: 2000, Remaining: 8},
			Status{Remaining: 8, Floor: 2}},
	} {
		got := statuses(acmeGPT, []decide.Level{c.level})[0]
		c.want.Entity, c.want.Resource, c.want.Limit, c.want.Capacity = acme, gpt, c.level.Limit.Name, 10
		if c.want.Refill = c.level.Limit.Amount / bucket.Milli; c.want.Refill > 0 {
			c.want.Period = time.Duration(c.level.Limit.Period) * time.Millisecond
		}
		if got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
}

// What a status tells of any level comes true: after RefillAfter, and not a millisecond before, there is
// a token more than remains, and after ResetAfter the limit is full. What others hold has no room before
// it is over, and what is left to others does not count.
func TestStatusesComeTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	held, floors, full := 0, 0, 0
	for n := range 20_000 {
		capacity := 1 + r.Int64N(20)
		period := time.Duration(1+r.Int64N(3000)) * time.Millisecond
		limit := lim("rps", capacity, 1+r.Int64N(7), period).stored()
		limit.Soft = r.IntN(5) == 0
		l := decide.Level{Limit: limit, Milli: limit.Capacity - r.Int64N(limit.Capacity+3000), Rest: r.Int64N(limit.Period)}
		if r.IntN(4) == 0 {
			l.Milli, l.Rest = limit.Capacity, 0
			full++
		}
		if r.IntN(3) == 0 {
			l.Held, l.Over = min(limit.Capacity, r.Int64N(4)*1000), 1+r.Int64N(3000)
			l.Milli = min(l.Milli, limit.Capacity-l.Held)
			held++
		}
		if r.IntN(3) == 0 {
			l.Floor = r.Int64N(limit.Capacity)
			floors++
		}
		l.Remaining, l.After, l.Estimated = r.Int64N(9), r.Int64N(9), r.IntN(2) == 0
		floor := l.Floor
		if limit.Soft {
			floor = 0
		}
		state := bucket.State{Shards: 1, RF: 1_000_000, HeldUntil: 1_000_000 + l.Over,
			Slots: []bucket.Slot{{Limit: limit, Tokens: l.Milli, Rest: l.Rest, Held: l.Held}}}
		level := func(ms int64) int64 { return state.At(state.RF + ms).Slots[0].Tokens }
		has := func(ms int64) int64 { return bucket.WholeAbove(level(ms), floor) }
		s := statuses(acmeGPT, []decide.Level{l})[0]
		more, whole := s.RefillAfter.Milliseconds(), s.ResetAfter.Milliseconds()
		can := bucket.WholeAbove(limit.Capacity, floor) > has(0)
		if (more > 0) != can || can && (has(more) <= has(0) || has(more-1) != has(0)) {
			t.Fatalf("run %d: %+v has one more than %d in %d ms: %d, then %d", n, l, has(0), more, has(more-1), has(more))
		}
		if level(whole) != limit.Capacity || whole > 0 && level(whole-1) == limit.Capacity {
			t.Fatalf("run %d: %+v is full in %d ms: %d", n, l, whole, level(whole))
		}
		want := Status{Entity: acme, Resource: gpt, Limit: "rps", Capacity: capacity, Refill: limit.Amount / 1000,
			Period: period, Remaining: l.Remaining, Soft: limit.Soft,
			RetryAfter: time.Duration(l.After) * time.Millisecond, RefillAfter: s.RefillAfter, ResetAfter: s.ResetAfter,
			Held: l.Held / 1000, Estimated: l.Estimated, Floor: (floor + 999) / 1000}
		if s != want {
			t.Fatalf("run %d: %+v, want %+v", n, s, want)
		}
	}
	if min(held, floors, full) < 1000 {
		t.Errorf("%d are held, %d have floors, %d are full: the random levels show little", held, floors, full)
	}
}
