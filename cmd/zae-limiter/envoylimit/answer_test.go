package envoylimit

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// perMinute returns a rule.
func perMinute(name string, requests uint32) *rule {
	r := &rule{name: name}
	r.set(requests, ratelimit.RateLimitResponse_RateLimit_MINUTE, 1)
	return r
}

// left returns the status of so many requests a minute with so many left, the first is back after a second.
func left(capacity, remaining int64, reset time.Duration) *limiter.Status {
	return &limiter.Status{Limit: LimitName, Capacity: capacity, Refill: capacity, Period: time.Minute,
		Remaining: remaining, ResetAfter: reset}
}

// The answer to several descriptors is that of the tightest, and names all.
func TestAnswerOfSeveral(t *testing.T) {
	failed := errors.New("failed")
	ten, five := decision{rule: perMinute("ten", 10)}, decision{rule: perMinute("fi\nve", 5)}
	shadow := decision{rule: &rule{shadow: true, limit: ten.rule.limit, said: ten.rule.said}}
	for name, c := range map[string]struct {
		decisions []decision
		outcomes  []outcome
		want      string
	}{
		"the least is left of the second": {[]decision{ten, five},
			[]outcome{{code: granted, status: left(10, 7, time.Second)}, {code: granted, status: left(5, 4, time.Minute)}},
			`OK, OK 7, OK 4, X-RateLimit-Limit: 5, 10;w=60;name="ten", 5;w=60, X-RateLimit-Remaining: 4, X-RateLimit-Reset: 60`},
		"the least is left of the first": {[]decision{five, ten},
			[]outcome{{code: granted, status: left(5, 4, 1500*time.Millisecond)}, {code: granted, status: left(10, 7, 1)}},
			`OK, OK 4, OK 7, X-RateLimit-Limit: 5, 5;w=60, 10;w=60;name="ten", X-RateLimit-Remaining: 4, X-RateLimit-Reset: 2`},
		"two deny, the first longer": {[]decision{ten, five},
			[]outcome{{code: over, wait: 9 * time.Second, status: &limiter.Status{Capacity: 10, Refill: 10, Period: time.Minute,
				RetryAfter: 9 * time.Second}}, {code: over, wait: time.Second, status: &limiter.Status{Capacity: 5, Refill: 5,
				Period: time.Minute, RetryAfter: time.Second}}},
			`OVER_LIMIT, OVER_LIMIT 0, OVER_LIMIT 0, X-RateLimit-Limit: 10, 10;w=60;name="ten", 5;w=60, ` +
				`X-RateLimit-Remaining: 0, X-RateLimit-Reset: 0, Retry-After: 9`},
		"two deny, one for ever": {[]decision{five, ten},
			[]outcome{{code: over, status: &limiter.Status{Capacity: 5, Refill: 5, Period: time.Minute,
				RetryAfter: -1, ResetAfter: -1}}, {code: over, wait: 9 * time.Second, status: &limiter.Status{Capacity: 10,
				Refill: 10, Period: time.Minute, RetryAfter: 9 * time.Second}}},
			`OVER_LIMIT, OVER_LIMIT 0, OVER_LIMIT 0, X-RateLimit-Limit: 5, 5;w=60, 10;w=60;name="ten", ` +
				`X-RateLimit-Remaining: 0`},
		"one denies, and nothing is known of it": {[]decision{ten, five},
			[]outcome{{code: granted, status: left(10, 7, time.Second)}, {code: over}},
			`OVER_LIMIT, OK 7, OVER_LIMIT 0, X-RateLimit-Limit: 10, 10;w=60;name="ten", X-RateLimit-Remaining: 7, X-RateLimit-Reset: 1`},
		"in debt": {[]decision{ten}, []outcome{{code: granted, status: left(10, -3, 100*365*24*time.Hour)}},
			`OK, OK 0, X-RateLimit-Limit: 10, 10;w=60;name="ten", X-RateLimit-Remaining: 0`},
		"slots without a known end": {[]decision{ten},
			[]outcome{{code: granted, status: &limiter.Status{Capacity: 9, Remaining: 7, InFlight: true,
				ResetAfter: 1 << 62}}},
			`OK, OK 7, X-RateLimit-Limit: 9, 9;name="ten", X-RateLimit-Remaining: 7`},
		"shadow mode is not seen": {[]decision{shadow, five},
			[]outcome{{code: over, wait: time.Second, status: left(10, 0, time.Minute)},
				{code: granted, status: left(5, 4, time.Second)}},
			`OK, OK 0, OK 4, X-RateLimit-Limit: 5, 5;w=60, X-RateLimit-Remaining: 4, X-RateLimit-Reset: 1`},
		"one failed": {[]decision{ten, five}, []outcome{{code: granted}, {err: failed}}, "failed"},
		"one failed and another denies": {[]decision{ten, five}, []outcome{{err: failed}, {code: over}},
			"OVER_LIMIT, UNKNOWN 0, OVER_LIMIT 0"},
		"shadow mode failed": {[]decision{shadow}, []outcome{{err: failed}}, "OK, OK 0"},
	} {
		out, err := answer(c.decisions, c.outcomes)
		got := []string{out.GetOverallCode().String()}
		for _, s := range out.GetStatuses() {
			got = append(got, fmt.Sprintf("%v %d", s.GetCode(), s.GetLimitRemaining()))
		}
		for _, h := range out.GetResponseHeadersToAdd() {
			got = append(got, h.GetKey()+": "+h.GetValue())
		}
		if err != nil {
			got = []string{err.Error()}
		}
		check.Equal(t, strings.Join(got, ", "), c.want, "%s", name)
	}
}

func TestTightest(t *testing.T) {
	a := limiter.Status{Limit: "a", Capacity: 9, Remaining: 5}
	for name, c := range map[string]struct {
		other limiter.Status
		want  string
	}{
		"less is left":       {limiter.Status{Limit: "b", Capacity: 9, Remaining: 4}, "b"},
		"more is left":       {limiter.Status{Limit: "b", Capacity: 9, Remaining: 6}, "a"},
		"a soft limit":       {limiter.Status{Limit: "b", Capacity: 9, Remaining: -4, Soft: true}, "a"},
		"it denies":          {limiter.Status{Limit: "b", Capacity: 9, Remaining: 6, RetryAfter: 1}, "b"},
		"it denies for ever": {limiter.Status{Limit: "b", Capacity: 9, Remaining: 6, RetryAfter: -1}, "b"},
		"it denies, if hard": {limiter.Status{Limit: "b", Capacity: 9, Remaining: 6, RetryAfter: 1, Soft: true}, "a"},
	} {
		for _, all := range [][]limiter.Status{{a, c.other}, {c.other, a}} {
			check.Equal(t, tightest(all).Limit, c.want, "%s", name)
		}
	}
	never := limiter.Status{Limit: "never", RetryAfter: -1}
	check.Equal(t, tightest([]limiter.Status{{Limit: "long", RetryAfter: math.MaxInt64 - 1}, never}).Limit, "never")
	if got := tightest(nil); got != nil {
		t.Errorf("the tightest of none: %v", got)
	}
}

// A stored limit is not taken for that of the rule because one of its numbers is the same.
func TestCurrentLimit(t *testing.T) {
	r := perMinute("ten", 10)
	for s, want := range map[limiter.Status]string{
		{Capacity: 10, Refill: 10, Period: time.Minute}:           "10 MINUTE 0",
		{Capacity: 20, Refill: 10, Period: time.Minute}:           "10 MINUTE 0",
		{Capacity: 10, Refill: 5, Period: time.Minute}:            "5 MINUTE 0",
		{Capacity: 10, Refill: 10, Period: time.Hour}:             "10 HOUR 0",
		{Capacity: 10, Refill: 10, Period: 30 * 24 * time.Hour}:   "10 MONTH 0",
		{Capacity: 10, Refill: 10, Period: 90 * time.Second}:      "10 SECOND 90",
		{Capacity: 1 << 40, Refill: 1 << 40, Period: time.Minute}: "4294967295 MINUTE 0",
		{Capacity: 1 << 40}: "4294967295 UNKNOWN 0",
		{Limit: LimitName, Capacity: 1, Refill: 1, Period: blocked().Period}: "0 SECOND 316223999",
	} {
		got := currentLimit(r, s)
		check.Equal(t, fmt.Sprint(got.RequestsPerUnit, " ", got.Unit, " ", got.GetUnitMultiplier().GetValue()), want,
			"%+v", s)
		if is := got == r.said; is != (s.Capacity == 10 && s.Refill == 10 && s.Period == time.Minute) {
			t.Errorf("%+v: that of the rule: %v", s, is)
		}
	}
}

func blocked() limiter.Limit { return limiter.Blocked(LimitName) }
