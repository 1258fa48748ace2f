package validate

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Each kind of limit is stored in millitokens and milliseconds, and comes back as it was.
func TestLimitsComeBackAsTheyWereStored(t *testing.T) {
	for _, c := range []struct {
		limit  Limit[string]
		stored bucket.Limit
	}{
		{
			Limit[string]{Name: "tpm", Capacity: 100, Refill: 50, Period: time.Minute, Soft: true, Floors: "a=1",
				Ahead: time.Second},
			bucket.Limit{Name: "tpm", Capacity: 100_000, Amount: 50_000, Period: 60_000, Soft: true, Floors: "a=1",
				Ahead: 1000},
		},
		{
			Limit[string]{Name: "rpd", Capacity: 7, Reset: "0 0 * * *|UTC", Soft: true, Floors: "a=1", Ahead: time.Second},
			bucket.Limit{Name: "rpd", Capacity: 7000, Period: bucket.QuotaPeriod, Reset: "0 0 * * *|UTC", Soft: true,
				Floors: "a=1", Ahead: 1000},
		},
		{
			Limit[string]{Name: "jobs", Capacity: 3, Period: 30 * time.Second, InFlight: true},
			bucket.Limit{Name: "jobs", Capacity: 3000, Period: 30_000, InFlight: true},
		},
	} {
		check.Equal(t, c.limit.Stored(), c.stored, "%s is stored as", c.limit.Name)
		check.Equal(t, LimitOf[string](c.stored), c.limit, "%s is read as", c.limit.Name)
	}
}

func TestPoliciesHaveOneWordEach(t *testing.T) {
	for p, word := range map[int]string{0: "", 1: "block", 2: "allow"} {
		if got, ok := PolicyWord(p); got != word || !ok {
			t.Errorf("policy %d is %q, %t, want %q", p, got, ok, word)
		}
		if got, ok := PolicyOf[int](word); got != p || !ok {
			t.Errorf("%q is policy %d, %t, want %d", word, got, ok, p)
		}
	}
	for _, p := range []int{-1, 3} {
		if word, ok := PolicyWord(p); ok {
			t.Errorf("policy %d can be stored, as %q", p, word)
		}
	}
	if p, ok := PolicyOf[int]("local"); ok || p != 0 {
		t.Errorf("policy %d is stored as local, want none", p)
	}
}

// A limit is read back from what an audit event says of it.
func TestLimitsOfAuditEvents(t *testing.T) {
	parse := func(text string) (string, error) { return "read " + text, nil }
	for _, c := range []struct {
		details map[string]any
		want    Limit[string]
	}{
		{map[string]any{"name": "rpm", "capacity": int64(20), "refill_amount": int64(10), "refill_period_seconds": int64(60),
			"soft": true, "floors": "batch=40", "ahead_milliseconds": int64(500)},
			Limit[string]{Name: "rpm", Capacity: 20, Refill: 10, Period: time.Minute, Soft: true, Floors: "batch=40",
				Ahead: 500 * time.Millisecond}},
		{map[string]any{"name": "q", "capacity": int64(5), "refill_period_seconds": int64(9), "reset": "0 0 * * * UTC"},
			Limit[string]{Name: "q", Capacity: 5, Reset: "read 0 0 * * * UTC"}},
		{map[string]any{"name": "jobs", "capacity": int64(5), "refill_period_seconds": int64(9), "in_flight": true},
			Limit[string]{Name: "jobs", Capacity: 5, Period: 9 * time.Second, InFlight: true}},
		{map[string]any{"name": 5, "capacity": "x"}, Limit[string]{}},
	} {
		if got := LimitIn(c.details, parse); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.details, got, c.want)
		}
	}
}
