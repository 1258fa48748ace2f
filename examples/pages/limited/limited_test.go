// Package limited is the test of docs/testing.md.
package limited

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestQuotaIsEnforced(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil) // give this to your code, as what it calls
	ask := limiter.Request{
		Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)},
	}
	if _, err := l.Acquire(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	_, err := l.Acquire(t.Context(), ask)
	denied, ok := errors.AsType[*limiter.LimitError](err)
	if !ok {
		t.Fatalf("the second request of one per minute: %v", err)
	}
	table.Advance(denied.RetryAfter)
	if _, err := l.Acquire(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	table.Fail(limiter.ErrUnavailable)
	ask.OnUnavailable = limiter.PolicyAllow
	table.Advance(time.Minute)
	lease, err := l.Acquire(t.Context(), ask)
	if err != nil || lease.Charged() {
		t.Errorf("with the table down: want a lease that charged nothing, got %v, %v", lease, err)
	}
}
