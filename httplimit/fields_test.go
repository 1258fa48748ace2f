package httplimit_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// In a bubble, because the reset of X-RateLimit is an instant.
func TestFieldsForOlderClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httplimit.New(limitertest.NewLive(t).Limiter(nil), httplimit.Options{
			Request: request,
			Fields:  []httplimit.Fields{httplimit.XRateLimit, httplimit.OpenAI("rpm", "tpm")},
		})(fine)
		in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
		wants(t, get(h, "a"), 200, map[string]string{
			"RateLimit": "", "RateLimit-Policy": "",
			"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": in(30 * time.Second),
			"x-ratelimit-limit-requests": "2", "x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "30s",
			"x-ratelimit-limit-tokens": "50", "x-ratelimit-remaining-tokens": "40", "x-ratelimit-reset-tokens": "6s",
		})
		get(h, "a")
		wants(t, get(h, "a"), 429, map[string]string{
			"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": in(time.Minute),
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0s",
			"x-ratelimit-remaining-tokens": "30", "Retry-After": "30",
		})
		none := httplimit.New(limitertest.NewLive(t).Limiter(nil), httplimit.Options{
			Request: request, Fields: []httplimit.Fields{},
		})(fine)
		wants(t, get(none, "a"), 200, map[string]string{"RateLimit": ""})
	})
}

// Fields of one limit are those of the one that matters most, and a limit that is
// not in force has none.
func TestFieldsOfTheTightestLimit(t *testing.T) {
	for _, c := range []struct {
		statuses    []limiter.Status
		limit, left string
	}{
		{[]limiter.Status{{Limit: "waits", Capacity: 10, Remaining: 1, RetryAfter: time.Second},
			{Limit: "never", Capacity: 100, Remaining: 90, RetryAfter: -1}, {Limit: "empty", Capacity: 1000}}, "100", "90"},
		{[]limiter.Status{{Limit: "full", Capacity: 10, Remaining: 9}, {Limit: "debt", Capacity: 7, Remaining: -3}},
			"7", "0"},
		{[]limiter.Status{{Limit: "hard", Capacity: 10, Remaining: 9},
			{Limit: "soft", Capacity: 7, Remaining: -3, Soft: true}}, "10", "9"},
		{[]limiter.Status{{Limit: "blocked", Capacity: 1, RefillAfter: math.MaxInt64, ResetAfter: math.MaxInt64},
			{Limit: "full", Capacity: 10, Remaining: 10}}, "10", "10"},
		{[]limiter.Status{{Limit: "slots", Capacity: 4, Remaining: 1, InFlight: true, RefillAfter: math.MaxInt64},
			{Limit: "half", Capacity: 10, Remaining: 5}}, "4", "1"},
		{[]limiter.Status{{Limit: "half", Capacity: 24, Remaining: 12}, {Limit: "nearly", Capacity: 1300, Remaining: 13}},
			"1300", "13"},
	} {
		h := http.Header{}
		httplimit.XRateLimit(h, c.statuses)
		if limit, left := h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"); limit != c.limit || left != c.left {
			t.Errorf("%v: of the limit with %s, %s left; want %s, %s", c.statuses, limit, left, c.limit, c.left)
		}
	}
	h := http.Header{}
	httplimit.OpenAI("rpm", "tpm")(h, []limiter.Status{{Limit: "tpm", Capacity: 7, Remaining: -1}, {Limit: "other"}})
	if len(h) != 3 || h.Get("x-ratelimit-limit-tokens") != "7" || h.Get("x-ratelimit-remaining-tokens") != "0" {
		t.Errorf("%v", h)
	}
}

// A level has the time until the request is covered, or else until there is one token more, in
// seconds that nobody comes too early by; none where that is never or not needed.
func TestFieldsOfALevel(t *testing.T) {
	for _, c := range []struct {
		status        limiter.Status
		level, policy string
	}{
		{limiter.Status{Capacity: 100, Refill: 40, Period: time.Minute, Remaining: 7, RefillAfter: 1500 * time.Millisecond},
			`"rpm";r=7;t=2`, `"rpm";q=100;w=150`},
		{limiter.Status{Capacity: 2, Refill: 1, Period: time.Second, RefillAfter: time.Second, RetryAfter: 2 * time.Second},
			`"rpm";r=0;t=2`, `"rpm";q=2;w=2`},
		{limiter.Status{Capacity: 10, Refill: 3, Period: time.Second, Remaining: 10}, `"rpm";r=10`, `"rpm";q=10;w=4`},
		{limiter.Status{Capacity: 10, Refill: 3, Period: time.Second, Remaining: 10, RefillAfter: 1}, `"rpm";r=10;t=1`,
			`"rpm";q=10;w=4`},
		{limiter.Status{Capacity: 10, Refill: 3, Period: time.Second, Remaining: -3, RefillAfter: time.Second,
			RetryAfter: -1},
			`"rpm";r=0`, `"rpm";q=10;w=4`},
		{limiter.Status{Capacity: 10, Period: time.Minute}, `"rpm";r=0`, `"rpm";q=10`}, // it does not refill
	} {
		h := http.Header{}
		c.status.Limit = "rpm"
		httplimit.RateLimit(h, []limiter.Status{c.status})
		if level, policy := h.Get("RateLimit"), h.Get("RateLimit-Policy"); level != c.level || policy != c.policy {
			t.Errorf("%+v: %s and %s, want %s and %s", c.status, level, policy, c.level, c.policy)
		}
	}
}

// Where no wait helps, no field and no member names one: neither years nor zero.
func TestNeverIsNoNumber(t *testing.T) {
	h := httplimit.New(limitertest.New(t).Limiter(nil), httplimit.Options{
		Request: asks("a", limiter.Blocked("images"), limiter.PerMinute("rpm", 10),
			limiter.Quota("rpd", 10, limiter.Daily(""))),
		Fields: []httplimit.Fields{httplimit.RateLimit, httplimit.XRateLimit, httplimit.OpenAI("images", "rpm")},
	})(fine)
	w := get(h, "")
	wants(t, w, 429, map[string]string{"Retry-After": "", "X-RateLimit-Reset": "", "X-RateLimit-Remaining": "0",
		"x-ratelimit-reset-requests": "", "x-ratelimit-reset-tokens": "0s",
		"RateLimit": `"images";r=0, "rpd";r=10, "rpm";r=10`})
	var raw struct {
		Seconds any `json:"retry_after_seconds"`
		MS      any `json:"retry_after_ms"`
		Limits  []map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &raw); err != nil || raw.Seconds != nil || raw.MS != nil ||
		raw.Limits[0]["retry_after_seconds"] != nil || raw.Limits[2]["retry_after_seconds"] != 0.0 {
		t.Errorf("%s: %v", w.Body, err)
	}
	if _, says := raw.Limits[1]["resets_at_ms"]; says { // nothing was looked up
		t.Errorf("of a quota: %s", w.Body)
	}
	var body httplimit.Body
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil ||
		body.RetryAfterSeconds != nil || body.RetryAfterMS != nil ||
		body.Limits[0].RetryAfterSeconds != nil || *body.Limits[2].RetryAfterSeconds != 0 ||
		!strings.HasSuffix(body.Message, "never granted") {
		t.Errorf("%+v: %v", body, err)
	}
}

// A blocked limit has nothing left, also for a request that takes nothing from it, and is never full. Slots
// are free when requests end, at an unknown time.
func TestUnknownIsNoNumber(t *testing.T) {
	for name, c := range map[string]struct {
		limit               limiter.Limit
		cost                int64
		left, reset, fields string
	}{
		"blocked":    {limiter.Blocked("x"), 0, "0", "", `"x";r=0`},
		"a slot":     {limiter.InFlight("x", 2, 5*time.Second), 1, "1", "", `"x";r=1`},
		"no slot":    {limiter.InFlight("x", 2, 5*time.Second), 2, "0", "", `"x";r=0`},
		"free slots": {limiter.InFlight("x", 2, 5*time.Second), 0, "2", "0s", `"x";r=2`},
	} {
		h := httplimit.New(limitertest.New(t).Limiter(nil), httplimit.Options{
			Request: func(*http.Request) (limiter.Request, error) {
				return limiter.Request{Entity: "a", Resource: "api", Costs: limiter.Costs{"x": c.cost},
					Limits: []limiter.Limit{c.limit}}, nil
			},
			Fields: []httplimit.Fields{httplimit.RateLimit, httplimit.XRateLimit, httplimit.OpenAI("x", "")},
		})(fine)
		w := get(h, "")
		wants(t, w, 200, map[string]string{"RateLimit": c.fields, "X-RateLimit-Remaining": c.left,
			"x-ratelimit-remaining-requests": c.left, "x-ratelimit-reset-requests": c.reset})
		if says := w.Header().Get("X-RateLimit-Reset") != ""; says != (c.reset != "") {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
}

// Instants are by the clock that decides, here that of the table, a year and more behind this machine's.
func TestInstantsAreByTheClockOfTheDecision(t *testing.T) {
	table := limitertest.New(t)
	table.Advance(30 * time.Minute)
	h := httplimit.New(table.Limiter(nil), httplimit.Options{
		Request: asks("a", limiter.Quota("rpd", 1, limiter.Daily(""))), Fields: []httplimit.Fields{httplimit.XRateLimit},
	})(fine)
	edge := table.Now().UTC().Truncate(24 * time.Hour).Add(24*time.Hour + time.Second) // no clock is early then
	want := map[string]string{"X-RateLimit-Reset": strconv.FormatInt(edge.Unix(), 10)}
	wants(t, get(h, ""), 200, want)
	table.Advance(time.Hour)
	w := get(h, "")
	wants(t, w, 429, want)
	var body httplimit.Body
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Limits[0].ResetsAtMS != edge.UnixMilli() {
		t.Errorf("%s: want %d, %v", w.Body, edge.UnixMilli(), err)
	}
}

// A denial whose request is not known says what the limit that denies was asked for.
func TestRequestedWithoutARequest(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	req := limiter.Request{Entity: "a", Resource: "api", Costs: limiter.Costs{"rpm": 3, "tpm": 5},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 4), limiter.PerMinute("tpm", 100)}}
	_, _ = l.Acquire(t.Context(), req)
	_, err := l.Acquire(t.Context(), req)
	denied, ok := errors.AsType[*limiter.LimitError](err)
	if !ok {
		t.Fatal(err)
	}
	check.Equal(t, (httplimit.Denial{LimitError: denied}).Body().Limits[0].Requested, 3, "requested")
	got := httplimit.Denial{LimitError: denied, Request: req}.Body().Limits
	if got[0].Requested != 3 || got[1].Requested != 5 {
		t.Errorf("%+v", got)
	}
	req.Costs = limiter.Costs{"tpm": 5} // of another request, then
	check.Equal(t, (httplimit.Denial{LimitError: denied, Request: req}).Body().Limits[0].Requested, 0,
		"requested of a limit that the request does not name")
}

// For a debt of centuries there is no number: nobody waits for it. The time in which an enormous
// capacity refills is an integer that a structured field can hold.
func TestFieldsOfCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
		h := http.Header{}
		deep := []limiter.Status{{Limit: "tpm", Capacity: limiter.MaxTokens, Refill: 1, Period: 24 * time.Hour,
			Remaining: math.MinInt64 / 1000, RetryAfter: longest, RefillAfter: longest, ResetAfter: longest}}
		httplimit.RateLimit(h, deep)
		httplimit.XRateLimit(h, deep)
		for name, want := range map[string]string{
			"RateLimit":             `"tpm";r=0`,
			"RateLimit-Policy":      `"tpm";q=999999999999999;w=999999999999999`,
			"X-RateLimit-Remaining": "0",
			"X-RateLimit-Reset":     "",
		} {
			check.Equal(t, h.Get(name), want, name)
		}
		quota := []limiter.Status{{Limit: "budget", Capacity: 1, ResetAfter: longest, RetryAfter: time.Second}}
		body := httplimit.Denial{LimitError: &limiter.LimitError{Statuses: quota}}.Body()
		if at := body.Limits[0].ResetsAtMS; body.Limits[0].Kind != "quota" || at != 0 {
			t.Errorf("%s resets at %d", body.Limits[0].Kind, at)
		}
		httplimit.XRateLimit(h, []limiter.Status{{Limit: "rpm", Capacity: 1, ResetAfter: 1}})
		check.Equal(t, h.Get("X-RateLimit-Reset"), strconv.FormatInt(time.Now().Unix()+1, 10),
			"a reset a nanosecond from now is at")
	})
}

// A reset that an outer middleware has set goes where no wait helps within, or nobody knows how long one would be.
func TestAResetIsTakenBack(t *testing.T) {
	const century = 101 * 365 * 24 * time.Hour
	openAI := httplimit.OpenAI("rpm", "")
	for _, within := range []limiter.Status{
		{RetryAfter: -1, ResetAfter: time.Minute}, {RetryAfter: time.Second, ResetAfter: -1},
		{RetryAfter: century, ResetAfter: time.Minute}, {ResetAfter: century},
	} {
		h := http.Header{}
		soon := []limiter.Status{{Limit: "rpm", Capacity: 10, Remaining: 9, ResetAfter: time.Minute}}
		httplimit.XRateLimit(h, soon)
		openAI(h, soon)
		const reset, own = "X-RateLimit-Reset", "X-RateLimit-Reset-Requests"
		if h.Get(reset) == "" || h.Get(own) != "1m0s" {
			t.Fatalf("%v", h)
		}
		within.Limit, within.Capacity = "rpm", 10
		httplimit.XRateLimit(h, []limiter.Status{within})
		openAI(h, []limiter.Status{within})
		if h.Get(reset) != "" || h.Get(own) != "" {
			t.Errorf("%+v: %v", within, h)
		}
	}
}
