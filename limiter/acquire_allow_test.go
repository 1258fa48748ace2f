package limiter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// TestAllow takes one of each limit or of none, and its advice holds.
func TestAllow(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil)
	allow := func() error {
		return l.Allow(t.Context(), "acme", limiter.PerSecond("rps", 10), limiter.PerMinute("rpm", 2))
	}
	for i := range 2 {
		check.Must(t, allow(), "call %d", i)
	}
	denied, ok := errors.AsType[*limiter.LimitError](allow())
	if !ok || denied.Limit != "rpm" || denied.RetryAfter != 30*time.Second {
		t.Fatalf("the third of 2 a minute: %+v, want a denial by rpm for 30 s", denied)
	}
	table.Advance(denied.RetryAfter - time.Millisecond)
	check.Is(t, allow(), limiter.ErrLimited, "a millisecond before RetryAfter")
	table.Advance(time.Millisecond)
	check.NoError(t, allow(), "after RetryAfter")
	check.NoError(t, l.Allow(t.Context(), "umbrella", limiter.PerMinute("rpm", 2)), "another entity")
}

// TestAllowShares what Acquire takes on the same resource: there is one bucket.
func TestAllowShares(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	rpm := limiter.PerMinute("rpm", 2)
	check.Must(t, check.Err(l.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: limiter.AllowResource,
		Costs: limiter.Costs{"rpm": 2}, Limits: []limiter.Limit{rpm}})))
	check.Is(t, l.Allow(t.Context(), "acme", rpm), limiter.ErrLimited, "error, want a denial")
}
