package limiter_test

import (
	"errors"
	"testing"
	"time"

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
		if err := allow(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	denied, ok := errors.AsType[*limiter.LimitError](allow())
	if !ok || denied.Limit != "rpm" || denied.RetryAfter != 30*time.Second {
		t.Fatalf("the third of 2 a minute: %+v, want a denial by rpm for 30 s", denied)
	}
	table.Advance(denied.RetryAfter - time.Millisecond)
	if err := allow(); !errors.Is(err, limiter.ErrLimited) {
		t.Errorf("a millisecond before RetryAfter: %v", err)
	}
	table.Advance(time.Millisecond)
	if err := allow(); err != nil {
		t.Errorf("after RetryAfter: %v", err)
	}
	if err := l.Allow(t.Context(), "umbrella", limiter.PerMinute("rpm", 2)); err != nil {
		t.Errorf("another entity: %v", err)
	}
}

// TestAllowShares what Acquire takes on the same resource: there is one bucket.
func TestAllowShares(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	rpm := limiter.PerMinute("rpm", 2)
	if _, err := l.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: limiter.AllowResource,
		Costs: limiter.Costs{"rpm": 2}, Limits: []limiter.Limit{rpm}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Allow(t.Context(), "acme", rpm); !errors.Is(err, limiter.ErrLimited) {
		t.Errorf("error %v, want a denial", err)
	}
}
