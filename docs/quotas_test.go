package docs_test

import (
	"context"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// The code of budgets-and-quotas.md: a call that was estimated at six cents costs a third
// of one, and the budget has exactly the rest.
func TestBudgetIsSettledToTheMillionth(t *testing.T) {
	table := limitertest.New(t)
	l, ctx := table.Limiter(nil), t.Context()
	const tokyo = "Asia/Tokyo"
	limits := []limiter.Limit{
		limiter.PerMinute("rpm", 600),
		limiter.PerMinute("tpm", 90_000),
		limiter.Quota("budget", limiter.USD(500), limiter.Monthly(1, tokyo)),
	}
	if err := table.Admin("default").SetLimits(ctx, admin.Scope{Resource: "gpt-4"}, limits...); err != nil {
		t.Fatal(err)
	}
	call := func(context.Context) (tokens, micros int64) { return 1_000, 3_333 }
	err := l.Do(ctx, limiter.Request{
		Entity: "team-a", Resource: "gpt-4",
		Costs: limiter.Costs{"rpm": 1, "tpm": 4_000, "budget": 60_000}, // at most six cents
	}, func(ctx context.Context, lease *limiter.Lease) error {
		tokens, micros := call(ctx)
		return lease.Settle(limiter.Costs{"tpm": tokens, "budget": micros})
	})
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := table.Admin("default").Peek(ctx, "team-a", "gpt-4")
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range buckets[0].Levels {
		if left := limiter.USD(500) - 3_333; level.Name == "budget" && level.Remaining != left {
			t.Errorf("%d millionths left, want %d", level.Remaining, left)
		}
	}
}
