package httplimit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Fields sets header fields with a client's limits: their state after a granted request, or the
// wait of a denied one. If middlewares are nested, it is called after each, with the limits of all
// of them so far. If several limits have one name, or one name in a cascade, only the tightest is
// given. There is at least one.
type Fields func(http.Header, []limiter.Status)

// RateLimit sets the fields RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers.
// In the policy, q is the capacity of the bucket, and w the time in which it refills. In RateLimit,
// t is the time until the request is covered, or until there is one token more; a limit without t
// is full, or waiting does not help.
func RateLimit(h http.Header, statuses []limiter.Status) {
	var levels, rules []string
	for _, s := range statuses {
		after := s.RefillAfter
		if s.RetryAfter != 0 {
			after = s.RetryAfter
		}
		// Lists of strings with parameters, as RFC 9651 writes them. The names of
		// limits need no escapes.
		level := fmt.Sprintf("%q;r=%d", s.Limit, integer(s.Remaining))
		if after > 0 && !never(after) {
			level += fmt.Sprintf(";t=%d", seconds(after))
		}
		rule := fmt.Sprintf("%q;q=%d", s.Limit, integer(s.Capacity))
		if s.Refill > 0 {
			window := s.Period.Seconds() * float64(s.Capacity) / float64(s.Refill)
			rule += fmt.Sprintf(";w=%d", int64(min(math.Ceil(window), largest)))
		}
		levels, rules = append(levels, level), append(rules, rule)
	}
	h.Set("RateLimit", strings.Join(levels, ", "))
	h.Set("RateLimit-Policy", strings.Join(rules, ", "))
}

// XRateLimit sets X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset from the tightest
// limit, in the form that GitHub's API made common: the reset is the time at which the limit is
// full again, in seconds since 1970 by DynamoDB's clock. It is left out if waiting does not help,
// or if that time is unknown: slots are free when requests end. A blocked limit that a granted
// request takes nothing from is the tightest only if there is no other.
func XRateLimit(h http.Header, statuses []limiter.Status) {
	s := slices.MinFunc(statuses, func(a, b limiter.Status) int {
		return cmp.Or(one(passed(a))-one(passed(b)), tighter(a, b))
	})
	h.Set("X-RateLimit-Limit", strconv.FormatInt(s.Capacity, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(0, s.Remaining), 10))
	h.Del("X-RateLimit-Reset")
	if resets(s) {
		reset := instant(s, s.ResetAfter).Add(time.Second - 1).Unix() // rounded up
		h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
	}
}

// never reports whether a time stands for a wait that does not help, or is unknown: it is negative,
// or longer than a century.
func never(d time.Duration) bool { return d < 0 || d > 100*365*24*time.Hour }

// resets reports whether it is known when a limit is full.
func resets(s limiter.Status) bool {
	return !never(s.RetryAfter) && !never(s.ResetAfter)
}

// passed reports whether a limit is blocked, and granted a request that takes nothing from it.
func passed(s limiter.Status) bool { return s.RetryAfter == 0 && never(s.RefillAfter) && !s.InFlight }

// instant returns the instant d after the decision, by its clock.
func instant(s limiter.Status, d time.Duration) time.Time {
	if s.At.IsZero() { // nothing was looked up
		return time.Now().Add(d)
	}
	return s.At.Add(d)
}

// OpenAI returns the fields of OpenAI's API, which its clients read: x-ratelimit-limit-requests,
// x-ratelimit-remaining-requests, x-ratelimit-reset-requests (the time until the limit is full:
// "1s", "6m0s") for the limit with the first name, and the same ending in -tokens for the second.
// Fields of a limit that is not in force are left out. So is a reset if waiting does not help, or
// if its time is unknown.
func OpenAI(requests, tokens string) Fields {
	return func(h http.Header, statuses []limiter.Status) {
		for _, s := range statuses {
			var of string
			switch s.Limit {
			case requests:
				of = "requests"
			case tokens:
				of = "tokens"
			default:
				continue
			}
			h.Set("X-RateLimit-Limit-"+of, strconv.FormatInt(s.Capacity, 10))
			h.Set("X-RateLimit-Remaining-"+of, strconv.FormatInt(max(0, s.Remaining), 10))
			h.Del("X-RateLimit-Reset-" + of)
			if resets(s) {
				h.Set("X-RateLimit-Reset-"+of, s.ResetAfter.String())
			}
		}
	}
}

// retryAfter sets Retry-After, in whole seconds, unless no wait helps.
func retryAfter(h http.Header, e *limiter.LimitError) {
	if !e.Never() {
		h.Set("Retry-After", strconv.FormatInt(seconds(e.RetryAfter), 10))
	}
}

// shown has the fields that middlewares have set so far, and their statuses.
type shown struct {
	fields   []Fields
	statuses []limiter.Status
}

type shownKey struct{}

// set sets the header fields of the options and of the middlewares before. It returns the request
// for the middlewares within.
func (o Options) set(w http.ResponseWriter, r *http.Request, statuses []limiter.Status) *http.Request {
	if len(statuses) == 0 || len(o.Fields) == 0 {
		return r
	}
	all, _ := r.Context().Value(shownKey{}).(shown)
	all = shown{slices.Concat(all.fields, o.Fields), slices.Concat(all.statuses, statuses)}
	expose(w.Header(), r, func() {
		for _, f := range all.fields {
			f(w.Header(), tightest(all.statuses))
		}
	})
	return r.WithContext(context.WithValue(r.Context(), shownKey{}, all))
}

// tightest returns, in order of name, the tightest limit of every name.
func tightest(statuses []limiter.Status) []limiter.Status {
	out := slices.Clone(statuses)
	slices.SortStableFunc(out, func(a, b limiter.Status) int {
		return cmp.Or(strings.Compare(a.Limit, b.Limit), tighter(a, b))
	})
	return slices.CompactFunc(out, func(a, b limiter.Status) bool { return a.Limit == b.Limit })
}

// tighter compares limits: those that deny come first, longest wait first, and of
// others the one of which less is left; soft ones, which deny nothing, last.
func tighter(a, b limiter.Status) int {
	wait := func(s limiter.Status) time.Duration {
		if s.RetryAfter < 0 {
			return math.MaxInt64 // never
		}
		return s.RetryAfter
	}
	left := func(s limiter.Status) float64 { return float64(s.Remaining) / float64(s.Capacity) }
	return cmp.Or(cmp.Compare(wait(b), wait(a)), one(a.Soft)-one(b.Soft), cmp.Compare(left(a), left(b)))
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// largest is the largest integer that a structured field can hold.
const largest = 999_999_999_999_999

// integer returns the nearest integer that a structured field can hold and that is
// not negative.
func integer(n int64) int64 { return min(max(0, n), largest) }

// seconds rounds up, so that nobody comes back too early.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
