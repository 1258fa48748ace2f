package limiter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// What a status counts from is the instant of the decision, by the clock that decides. So an edge is an
// edge, however late somebody asks for the status, and whatever the machine's clock shows.
func TestStatusSaysFromWhenItCounts(t *testing.T) {
	for _, policy := range []limiter.Policy{limiter.PolicyBlock, limiter.PolicyLocal} {
		for _, ahead := range []time.Duration{0, time.Second} {
			table := limitertest.New(t)
			l := table.Limiter(&limiter.Options{Ahead: ahead, OnUnavailable: policy, LocalShare: 100})
			req := limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"q": 1},
				Limits: []limiter.Limit{limiter.Quota("q", 2, limiter.Daily(""))}}
			if policy == limiter.PolicyLocal {
				table.Fail(limiter.ErrUnavailable)
			}
			table.Advance(time.Hour)
			edge := table.Now().UTC().Truncate(24 * time.Hour).Add(24*time.Hour + time.Second) // no clock is early then
			for range 2 {
				lease, err := l.Acquire(t.Context(), req)
				check.Must(t, err)
				at := table.Now()
				if ahead == 0 { // else it is worked out when it is asked for
					table.Advance(time.Minute)
				}
				if s := lease.Status()[0]; !s.At.Equal(at) || !s.At.Add(s.ResetAfter).Equal(edge) {
					t.Errorf("policy %v, ahead %v: at %v, whole after %v, want %v and %v", policy, ahead,
						s.At, s.ResetAfter, at, edge)
				}
			}
			_, err := l.Acquire(t.Context(), req)
			denied, ok := errors.AsType[*limiter.LimitError](err)
			if !ok {
				t.Fatal(err)
			}
			table.Advance(time.Minute)
			if s := denied.Statuses[0]; !s.At.Add(s.ResetAfter).Equal(edge) || !s.At.Add(denied.RetryAfter).Equal(edge) {
				t.Errorf("policy %v, ahead %v: denied at %v, whole after %v, want %v", policy, ahead, s.At, s.ResetAfter, edge)
			}
		}
	}
}
