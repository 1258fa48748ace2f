package limiter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A status counts from the instant of the decision, by the clock that decides. So an edge stays the
// same, however late the status is read, and whatever the machine's clock shows.
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
				if ahead == 0 { // otherwise it is computed when it is read
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

// TestAllowWithoutALease cannot take slots: nothing would give them back.
func TestAllowWithoutALease(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	rpm, jobs := limiter.PerMinute("rpm", 1), limiter.InFlight("jobs", 2, time.Minute)
	err := l.Allow(t.Context(), "acme", rpm, jobs)
	if check.Is(t, err, limiter.ErrInvalid, "slots"); !strings.Contains(fmt.Sprint(err), `"jobs"`) {
		t.Errorf("%v, want it to name the limit", err)
	}
	check.NoError(t, l.Allow(t.Context(), "acme", rpm), "nothing was taken")
}

// TestAllowShares the tokens of Acquire on the same resource: there is one bucket.
func TestAllowShares(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	rpm := limiter.PerMinute("rpm", 2)
	check.Must(t, check.Err(l.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: limiter.AllowResource,
		Costs: limiter.Costs{"rpm": 2}, Limits: []limiter.Limit{rpm}})))
	check.Is(t, l.Allow(t.Context(), "acme", rpm), limiter.ErrLimited, "error, want a denial")
}
