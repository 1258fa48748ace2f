package limiter

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/known"
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
		level known.Level
		want  Status
	}{
		"nothing held": {known.Level{Limit: rate, Milli: 4500, Remaining: 4},
			Status{Remaining: 4, RefillAfter: 500 * time.Millisecond, ResetAfter: 5500 * time.Millisecond}},
		"2 held for a minute": {known.Level{Limit: rate, Milli: 4500, Remaining: 4, Held: 2000, Over: 60_000},
			Status{Remaining: 4, Held: 2, RefillAfter: 500 * time.Millisecond, ResetAfter: 62 * time.Second}},
		"what is held leaves no room": {known.Level{Limit: rate, Milli: 8000, Remaining: 8, Held: 2000, Over: 60_000},
			Status{Remaining: 8, Held: 2, RefillAfter: 61 * time.Second, ResetAfter: 62 * time.Second}},
		"half of a thousandth, 2 held for a second": {known.Level{Limit: slow, Milli: 4999, Rest: 5_000_000, Remaining: 4,
			Held: 2000, Over: 1000},
			Status{Remaining: 4, Held: 2, RefillAfter: 5 * time.Second, ResetAfter: 50_005 * time.Second}},
		"a floor of 2.5": {known.Level{Limit: rate, Milli: 4000, Floor: 2500, Remaining: 1},
			Status{Remaining: 1, Floor: 3, RefillAfter: 500 * time.Millisecond, ResetAfter: 6 * time.Second}},
		"a soft limit leaves no floor": {known.Level{Limit: soft, Milli: 4000, Floor: 2500, Remaining: 4},
			Status{Remaining: 4, Soft: true, RefillAfter: time.Second, ResetAfter: 6 * time.Second}},
		"a quota": {known.Level{Limit: daily, Milli: 4000, Remaining: 4, Edge: day.Milliseconds()},
			Status{Remaining: 4, RefillAfter: day, ResetAfter: day}},
		"a quota with a floor": {known.Level{Limit: daily, Milli: 4000, Floor: 3000, Remaining: 1, Edge: day.Milliseconds()},
			Status{Remaining: 1, Floor: 3, RefillAfter: day, ResetAfter: day}},
		"a floor that leaves the last token": {known.Level{Limit: rate, Milli: 10_000, Floor: 2000, Remaining: 8},
			Status{Remaining: 8, Floor: 2}},
	} {
		got := statuses(acme, []known.Level{c.level})[0]
		c.want.Entity, c.want.Limit, c.want.Capacity = acme, c.level.Limit.Name, 10
		if c.want.Refill = c.level.Limit.Amount / bucket.Milli; c.want.Refill > 0 {
			c.want.Period = time.Duration(c.level.Limit.Period) * time.Millisecond
		}
		if got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
}
