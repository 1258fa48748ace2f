package envoylimit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

const (
	unknown = ratelimit.RateLimitResponse_UNKNOWN
	granted = ratelimit.RateLimitResponse_OK
	over    = ratelimit.RateLimitResponse_OVER_LIMIT
)

// outcome is the result of a decision.
type outcome struct {
	code   ratelimit.RateLimitResponse_Code // unknown: see err
	status *limiter.Status                  // of the tightest limit; nil: unknown
	wait   time.Duration                    // until the same hits are granted; 0: waiting does not help
	err    error
}

// answer combines the outcomes of a request. The request is over the limit if one outcome is.
// Otherwise an error of one fails the request. Rules in shadow mode never deny or fail it.
func answer(decisions []decision, outcomes []outcome) (*ratelimit.RateLimitResponse, error) {
	out := &ratelimit.RateLimitResponse{OverallCode: granted}
	var failed error
	for i, o := range outcomes {
		d := decisions[i]
		if d.rule != nil && d.rule.shadow {
			o.code, o.err = granted, nil
		}
		out.Statuses = append(out.Statuses, statusOf(d, o))
		if failed = cmp.Or(failed, o.err); o.code == over {
			out.OverallCode = over
		}
	}
	if failed != nil && out.OverallCode != over {
		return nil, failed
	}
	out.ResponseHeadersToAdd = headers(decisions, outcomes)
	return out, nil
}

func statusOf(d decision, o outcome) *ratelimit.RateLimitResponse_DescriptorStatus {
	out := &ratelimit.RateLimitResponse_DescriptorStatus{Code: o.code}
	if s := o.status; s != nil {
		out.CurrentLimit = currentLimit(d.rule, *s)
		out.LimitRemaining = uint32(min(max(0, s.Remaining), math.MaxUint32))
		if !isNever(s.ResetAfter) {
			out.DurationUntilReset = durationpb.New(s.ResetAfter)
		}
	}
	if d.rule != nil && d.rule.unlimited {
		out.LimitRemaining = math.MaxUint32
	}
	return out
}

// currentLimit returns the limit in force. A rule's limit is reported as the rule declares it, a
// stored one as closely as the protocol allows.
func currentLimit(r *rule, s limiter.Status) *ratelimit.RateLimitResponse_RateLimit {
	if isOf(s, r.limit) {
		return r.said
	}
	out := &ratelimit.RateLimitResponse_RateLimit{Name: r.name, RequestsPerUnit: uint32(min(s.Refill, math.MaxUint32))}
	switch {
	case isOf(s, limiter.Blocked(s.Limit)):
		out.RequestsPerUnit = 0
	case s.Period == 0: // a quota
		out.RequestsPerUnit = uint32(min(s.Capacity, math.MaxUint32))
		return out
	}
	for unit, period := range periods {
		if period == s.Period {
			out.Unit = unit
			return out
		}
	}
	out.Unit = ratelimit.RateLimitResponse_RateLimit_SECOND
	out.UnitMultiplier = wrapperspb.UInt32(uint32(min(s.Period/time.Second, math.MaxUint32)))
	return out
}

func isOf(s limiter.Status, l limiter.Limit) bool {
	return s.Capacity == l.Capacity && s.Refill == l.Refill && s.Period == l.Period
}

// maxPolicies limits the number of policies in a header field, because HTTP clients refuse fields
// of a few KB.
const maxPolicies = 16

// headers returns the header fields of a request's limits: X-RateLimit-Limit, -Remaining and -Reset
// follow version 3 of draft-polli-ratelimit-headers, as Envoy's own do. Retry-After is added if the
// request is over a limit.
func headers(decisions []decision, outcomes []outcome) (out []*core.HeaderValue) {
	var policies []string
	first, limit, wait, waits := limiter.Status{}, int64(-1), time.Duration(0), true
	for i, o := range outcomes {
		if decisions[i].rule == nil || decisions[i].rule.shadow {
			continue
		}
		if o.code == over {
			wait, waits = max(wait, o.wait), waits && o.wait > 0
		}
		if o.status == nil {
			continue
		}
		now := currentLimit(decisions[i].rule, *o.status)
		if p := policy(now, o.status.Period); len(policies) < maxPolicies && !slices.Contains(policies, p) {
			policies = append(policies, p)
		}
		if limit < 0 || tighter(*o.status, first) < 0 {
			first, limit = *o.status, int64(now.RequestsPerUnit)
		}
	}
	add := func(key, value string) { out = append(out, &core.HeaderValue{Key: key, Value: value}) }
	if limit >= 0 {
		add("X-RateLimit-Limit", fmt.Sprintf("%d, %s", limit, strings.Join(policies, ", ")))
		add("X-RateLimit-Remaining", strconv.FormatInt(max(0, first.Remaining), 10))
	}
	if limit >= 0 && !isNever(first.ResetAfter) {
		add("X-RateLimit-Reset", strconv.FormatInt(seconds(first.ResetAfter), 10))
	}
	if wait > 0 && waits {
		add("Retry-After", strconv.FormatInt(seconds(wait), 10))
	}
	return out
}

// policy formats a limit for the header field: 10;w=60;name="per address". A quota has no w.
func policy(l *ratelimit.RateLimitResponse_RateLimit, period time.Duration) string {
	out := strconv.FormatInt(int64(l.RequestsPerUnit), 10)
	if unit, ok := periods[l.Unit]; ok {
		period = unit * time.Duration(max(1, l.GetUnitMultiplier().GetValue()))
	}
	if period > 0 {
		out += fmt.Sprintf(";w=%d", seconds(period))
	}
	if l.Name != "" && !strings.ContainsFunc(l.Name, func(r rune) bool { return r < ' ' || r > '~' }) {
		out += ";name=" + strconv.Quote(l.Name)
	}
	return out
}

// tightest returns the limit that denies longest, or the one with the least left. It returns nil if
// there is none. Soft limits deny nothing, so they come last.
func tightest(all []limiter.Status) *limiter.Status {
	if len(all) == 0 {
		return nil
	}
	return new(slices.MinFunc(all, tighter))
}

func tighter(a, b limiter.Status) int {
	wait := func(s limiter.Status) time.Duration {
		switch {
		case s.Soft:
			return -1
		case s.RetryAfter < 0:
			return math.MaxInt64 // never
		}
		return s.RetryAfter
	}
	return cmp.Or(cmp.Compare(wait(b), wait(a)), cmp.Compare(a.Remaining, b.Remaining))
}

// isNever reports whether waiting does not help, or not within the longest period.
func isNever(d time.Duration) bool { return d < 0 || d > longest }

// seconds rounds up: a client must not come back too early.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
