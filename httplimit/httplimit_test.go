package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func request(r *http.Request) (limiter.Request, error) {
	key := r.Header.Get("X-Api-Key")
	if key == "" {
		return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: errors.New("no key")}
	}
	return limiter.Request{
		Entity: key, Resource: "api", Costs: limiter.Costs{"rpm": 1, "tpm": 10},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 2), limiter.PerMinute("tpm", 100).WithCapacity(50)},
	}, nil
}

// asks returns a request of an entity for one token of each limit.
func asks(entity string, limits ...limiter.Limit) func(*http.Request) (limiter.Request, error) {
	costs := limiter.Costs{}
	for _, l := range limits {
		costs[l.Name] = 1
	}
	return func(*http.Request) (limiter.Request, error) {
		return limiter.Request{Entity: entity, Resource: "api", Costs: costs, Limits: limits}, nil
	}
}

func get(h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func wants(t *testing.T, w *httptest.ResponseRecorder, status int, fields map[string]string) {
	t.Helper()
	check.Equal(t, w.Code, status, "status : %s", w.Body)
	for name, want := range fields {
		check.Equal(t, w.Header().Get(name), want, name)
	}
}

var fine = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })

func TestGrantedAndDenied(t *testing.T) {
	table := limitertest.New(t)
	h := httplimit.New(table.Limiter(nil), httplimit.Options{Request: request})(fine)
	policy := `"rpm";q=2;w=60, "tpm";q=50;w=30`
	wants(t, get(h, "a"), 200, map[string]string{
		"RateLimit": `"rpm";r=1;t=30, "tpm";r=40;t=1`, "RateLimit-Policy": policy, "Retry-After": "",
	})
	wants(t, get(h, "a"), 200, map[string]string{"RateLimit": `"rpm";r=0;t=30, "tpm";r=30;t=1`})
	w := get(h, "a")
	wants(t, w, 429, map[string]string{
		"Retry-After": "30", "RateLimit-Policy": policy, "Content-Type": "application/json", "Cache-Control": "no-store",
	})
	var body httplimit.Body
	check.Must(t, json.Unmarshal(w.Body.Bytes(), &body))
	want := httplimit.BodyLimit{
		Entity: "a", Resource: "api", Limit: "rpm", Kind: "rate", Capacity: 2, RefillAmount: 2, RefillPeriod: 60,
		Requested: 1, Exceeded: true, RetryAfterSeconds: new(30.0),
	}
	if body.Error != "rate_limit_exceeded" || *body.RetryAfterMS != 30_000 || *body.RetryAfterSeconds != 30 ||
		len(body.Limits) != 2 || !reflect.DeepEqual(body.Limits[0], want) || body.Limits[1].Exceeded {
		t.Errorf("body: %s", w.Body)
	}
	wants(t, get(h, "b"), 200, nil)
	table.Advance(29_001 * time.Millisecond)
	wants(t, get(h, "a"), 429, map[string]string{"Retry-After": "1"}) // rounded up
	table.Advance(time.Second)
	wants(t, get(h, "a"), 200, nil)
}

func TestNothingDecided(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil)
	h := httplimit.New(l, httplimit.Options{Request: request})(fine)
	anonymous := get(h, "")
	wants(t, anonymous, 401, map[string]string{"RateLimit": ""})
	if anonymous.Body.String() != `{"error":"unauthorized"}`+"\n" { // once: nothing is asked for then
		t.Errorf("body: %s", anonymous.Body)
	}
	table.Fail(limiter.ErrUnavailable)
	w := get(h, "a")
	wants(t, w, 503, map[string]string{"Retry-After": "1", "X-Content-Type-Options": "nosniff"})
	check.Equal(t, w.Body.String(), `{"error":"rate_limiter_unavailable"}`+"\n", "body: %s", w.Body)
	for _, policy := range []limiter.Policy{limiter.PolicyAllow, limiter.PolicyLocal} { // no field is of the table then
		open := httplimit.New(down(t, policy), httplimit.Options{Request: request})(fine)
		wants(t, get(open, "a"), 200, map[string]string{"RateLimit": "", "RateLimit-Policy": ""})
	}
	own := httplimit.New(down(t, limiter.PolicyBlock), httplimit.Options{Request: request,
		Failed: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.WriteHeader(http.StatusTeapot)
			check.Is(t, err, limiter.ErrUnavailable, "failed with")
		}})(fine)
	wants(t, get(own, "a"), http.StatusTeapot, nil)
	table.Fail(nil)
	wants(t, get(h, "a"), 200, nil)
	for err, status := range map[error]int{limiter.ErrTooLarge: 413, limiter.ErrNoLimits: 500, errors.New("x"): 500,
		limiter.ErrUnknown:  503,
		limiter.ErrDisabled: 403, &httplimit.Error{Status: 99, Err: errors.New("x")}: 500} {
		w := httptest.NewRecorder()
		httplimit.WriteFailed(w, nil, fmt.Errorf("wrapped: %w", err))
		wants(t, w, status, nil)
	}
	for own, status := range map[int]int{399: 500, 400: 400, 599: 599, 600: 500} { // no error is none of HTTP's
		w := httptest.NewRecorder()
		httplimit.WriteFailed(w, nil, &httplimit.Error{Status: own, Err: errors.New("x")})
		wants(t, w, status, nil)
	}
}

// down is a limiter whose table does not answer.
func down(t *testing.T, policy limiter.Policy) *limiter.Limiter {
	table := limitertest.New(t)
	l := table.Limiter(&limiter.Options{OnUnavailable: policy, LocalShare: 100})
	table.Fail(limiter.ErrUnavailable)
	return l
}

func TestHooksAndSkip(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	granted, denied, ran := 0, 0, 0
	h := httplimit.New(l, httplimit.Options{
		Request: request,
		Skip:    func(r *http.Request) bool { return r.Header.Get("X-Api-Key") == "health" },
		Granted: func(_ *http.Request, lease *limiter.Lease) { granted += len(lease.Entity()) },
		Denied: func(w http.ResponseWriter, _ *http.Request, d httplimit.Denial) {
			denied += len(d.Request.Entity)
			w.WriteHeader(http.StatusTeapot)
		},
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran++
		check.Equal(t, r.Header.Get("X-Api-Key") == "health", httplimit.Lease(r) == nil,
			"a lease if and only if it was taken")
	}))
	for range 5 {
		wants(t, get(h, "health"), 200, map[string]string{"RateLimit": ""})
	}
	get(h, "a")
	get(h, "a")
	wants(t, get(h, "a"), http.StatusTeapot, map[string]string{"Retry-After": "30"})
	if granted != 2 || denied != 1 || ran != 7 {
		t.Errorf("%d granted, %d denied, %d handled", granted, denied, ran)
	}
}

// A middleware that lacks what it needs panics at once, and not with the first request.
func TestNewNeedsALimiterAndRequest(t *testing.T) {
	for want, f := range map[string]func(){
		"limiter of httplimit.New is nil, want one": func() { httplimit.New(nil, httplimit.Options{Request: request}) },
		"bug: the limiter of httplimit.New is nil": func() {
			httplimit.New((*limiter.Limiter)(nil), httplimit.Options{Request: request})
		},
		"Options.Request of httplimit.New is nil, want": func() { httplimit.New(denying{}, httplimit.Options{}) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("it panics with %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

// denying denies everything, and knows of no limit.
type denying struct{}

func (denying) Acquire(context.Context, limiter.Request) (*limiter.Lease, error) {
	return nil, &limiter.LimitError{RetryAfter: time.Second}
}

// Fields need a limit to tell of; without one they are not asked.
func TestNoFieldsWithoutALimit(t *testing.T) {
	h := httplimit.New(denying{}, httplimit.Options{Request: request,
		Fields: []httplimit.Fields{func(http.Header, []limiter.Status) { t.Error("asked for fields of no limit") }}})(fine)
	wants(t, get(h, "a"), 429, map[string]string{"Retry-After": "1"})
}

// A caller finds its own error in that of its Request, and what it says.
func TestErrorsHaveTheirCause(t *testing.T) {
	cause := errors.New("no key")
	if err := (&httplimit.Error{Status: 401, Err: cause}); !errors.Is(err, cause) || err.Error() != "no key" {
		t.Errorf("%v", err)
	}
}

// A lease that cannot be settled is no trouble for its request, and Settled may be nil.
func TestSettledMayBeNil(t *testing.T) {
	table := limitertest.New(t)
	h := httplimit.New(table.Limiter(nil), httplimit.Options{Request: request})(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			table.Fail(limiter.ErrUnavailable)
			check.NoError(t, httplimit.Lease(r).Settle(limiter.Costs{"tpm": 35}))
		}))
	wants(t, get(h, "a"), 200, nil)
}

// What the handler settles is written after it has returned, also when the client
// has gone away or the handler panics. A panic gives nothing back: a client may have caused it.
func TestSettling(t *testing.T) {
	table := limitertest.New(t)
	ns := table.Admin("")
	left := func(key string) [2]int64 {
		t.Helper()
		b, err := ns.Peek(t.Context(), key, "api")
		check.Must(t, err)
		return [2]int64{b[0].Levels[0].Remaining, b[0].Levels[1].Remaining}
	}
	var failed error
	ctx, leave := context.WithCancel(t.Context())
	h := httplimit.New(table.Limiter(nil), httplimit.Options{
		Request: request,
		Settled: func(_ *http.Request, err error) { failed = err },
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Api-Key") {
		case "settles":
			leave()
			check.NoError(t, httplimit.Lease(r).Settle(limiter.Costs{"tpm": 35}))
		case "panics":
			panic("x")
		case "panics later":
			check.NoError(t, httplimit.Lease(r).Settle(limiter.Costs{"tpm": 35}))
			panic("x")
		case "exits":
			runtime.Goexit()
		case "fails", "is lost":
			trouble := limiter.ErrUnavailable
			if r.Header.Get("X-Api-Key") == "is lost" {
				trouble = limiter.ErrUnknown
			}
			table.Fail(trouble)
			check.NoError(t, httplimit.Lease(r).Settle(limiter.Costs{"tpm": 35}))
		}
	}))
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set("X-Api-Key", "settles")
	h.ServeHTTP(httptest.NewRecorder(), r)
	check.Equal(t, left("settles"), [2]int64{1, 15}, "settled")
	for key, want := range map[string][2]int64{"panics": {1, 40}, "panics later": {1, 15}, "exits": {1, 40}} {
		var all sync.WaitGroup
		all.Go(func() {
			defer func() {
				cause := recover()
				check.Equal(t, cause == "x", key != "exits", "%s: the panic is %v", key, cause)
			}()
			get(h, key)
		})
		all.Wait()
		check.Equal(t, left(key), want, "a handler that %s", key)
	}
	get(h, "fails")
	table.Fail(nil)
	if got := left("fails"); got != [2]int64{1, 40} || !errors.Is(failed, limiter.ErrUnavailable) {
		t.Errorf("not settled: %v, %v", got, failed)
	}
	get(h, "is lost")
	table.Fail(nil)
	if got := left("is lost"); got != [2]int64{1, 15} || !errors.Is(failed, limiter.ErrUnknown) {
		t.Errorf("settled, and the answer lost: %v, %v", got, failed)
	}
}

// TestPageShowsThisDenial: the page about HTTP prints a denial as it is.
func TestPageShowsThisDenial(t *testing.T) {
	h := httplimit.New(limitertest.New(t).Limiter(nil), httplimit.Options{
		Request: asks("acme", limiter.PerMinute("rpm", 1)),
	})(fine)
	get(h, "")
	w := get(h, "")
	shown := fmt.Sprintf("HTTP/1.1 %d %s\n", w.Code, http.StatusText(w.Code))
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "Content-Type"} {
		shown += fmt.Sprintf("%s: %s\n", name, w.Header().Get(name))
	}
	shown += "\n" + w.Body.String()
	page, err := os.ReadFile("../docs/http-grpc.md")
	check.Must(t, err)
	if !strings.Contains(string(page), shown) {
		t.Errorf("docs/http-grpc.md shows another denial than this:\n%s", shown)
	}
}

// The context of a request ends when its slot is lost; the lease is settled all the same.
func TestRequestsThatLoseTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		h := httplimit.New(table.Limiter(nil), httplimit.Options{
			Request: func(*http.Request) (limiter.Request, error) {
				return limiter.Request{Entity: "a", Resource: "jobs", Costs: limiter.Costs{"jobs": 1},
					Limits: []limiter.Limit{limiter.InFlight("jobs", 1, 5*time.Second)}}, nil
			},
			Settled: func(_ *http.Request, err error) { t.Error(err) },
		})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			table.Fail(limiter.ErrUnavailable)
			<-r.Context().Done()
			check.Is(t, context.Cause(r.Context()), limiter.ErrSlotsLost, "the request ended with")
			table.Fail(nil)
		}))
		wants(t, get(h, "a"), http.StatusOK, nil)
	})
}

// A hook of the program that panics ends the request, and its slot is free at once.
func TestHooksThatPanicFreeTheSlot(t *testing.T) {
	for name, o := range map[string]httplimit.Options{
		"Granted": {Granted: func(*http.Request, *limiter.Lease) { panic("x") }},
		"Fields":  {Fields: []httplimit.Fields{func(http.Header, []limiter.Status) { panic("x") }}},
	} {
		table := limitertest.New(t)
		o.Request = asks("a", limiter.InFlight("jobs", 1, time.Minute))
		func() {
			defer func() { check.Equal(t, recover(), any("x"), "%s: the panic", name) }()
			get(httplimit.New(table.Limiter(nil), o)(fine), "")
		}()
		b, err := table.Admin("").Peek(t.Context(), "a", "api")
		check.Must(t, err)
		check.Equal(t, b[0].Levels[0].Remaining, 1, "%s: free slots", name)
	}
}

// The body says of each limit what kind it is, and of a quota alone when it is whole again; an
// error of the caller's own is told in the words of its status.
func TestKindsAndWordsOfABody(t *testing.T) {
	body := httplimit.Denial{LimitError: &limiter.LimitError{Statuses: []limiter.Status{
		{Limit: "rpm", Capacity: 1, Refill: 1, ResetAfter: time.Minute}, {Limit: "rpd", Capacity: 1, ResetAfter: time.Hour},
		{Limit: "jobs", Capacity: 1, InFlight: true, ResetAfter: time.Minute, RetryAfter: -1},
		{Limit: "tpm", Capacity: 1, Refill: 1, Soft: true}, {Limit: "none"},
	}}}.Body()
	if l := body.Limits[2]; !l.Exceeded || l.RetryAfterSeconds != nil {
		t.Errorf("nobody knows how long it takes: %+v", l)
	}
	if body.Contended {
		t.Error("one of the limits is exceeded, and the body tells of others that wrote")
	}
	none := httplimit.Denial{LimitError: &limiter.LimitError{}}.Body()
	if text, err := json.Marshal(none); err != nil || none.Contended || !strings.Contains(string(text), `"limits":[]`) {
		t.Errorf("a denial without a limit is told as %s, %v", text, err)
	}
	for i, kind := range []string{"rate", "quota", "in_flight", "rate", "rate"} {
		if l := body.Limits[i]; l.Kind != kind || l.Soft != (l.Limit == "tpm") || (l.ResetsAtMS > 0) != (kind == "quota") {
			t.Errorf("%s is of kind %s, soft: %v, and is whole again at %d", l.Limit, l.Kind, l.Soft, l.ResetsAtMS)
		}
	}
	w := httptest.NewRecorder()
	httplimit.WriteFailed(w, nil, &httplimit.Error{Status: http.StatusPaymentRequired, Err: errors.New("x")})
	check.Equal(t, w.Body.String(), `{"error":"payment_required"}`+"\n", "body: %s", w.Body)
}

// A request may take from several keys: the tightest limit of each name is in the fields, and the body says what the
// part that denies was asked for.
func TestSeveralKeys(t *testing.T) {
	table := limitertest.New(t)
	limits := func(n int64) []limiter.Limit { return []limiter.Limit{limiter.PerMinute("rpm", n)} }
	all := limiter.Part{Entity: "everybody", Resource: "api", Costs: limiter.Costs{"rpm": 3}, Limits: limits(8)}
	h := httplimit.New(table.Limiter(nil), httplimit.Options{Fields: []httplimit.Fields{httplimit.XRateLimit},
		Request: func(r *http.Request) (limiter.Request, error) {
			return limiter.Request{Entity: r.Header.Get("X-Api-Key"), Resource: "api", Costs: limiter.Costs{"rpm": 1},
				Limits: limits(5), Also: []limiter.Part{all}}, nil
		}})(fine)
	wants(t, get(h, "a"), 200, map[string]string{"X-RateLimit-Limit": "8", "X-RateLimit-Remaining": "5"})
	wants(t, get(h, "b"), 200, map[string]string{"X-RateLimit-Limit": "8", "X-RateLimit-Remaining": "2"})
	w := get(h, "a")
	wants(t, w, 429, map[string]string{"Retry-After": "8", "X-RateLimit-Limit": "8"})
	var body httplimit.Body
	check.Must(t, json.Unmarshal(w.Body.Bytes(), &body))
	if len(body.Limits) != 1 || body.Limits[0].Entity != "everybody" || body.Limits[0].Requested != 3 {
		t.Errorf("body: %s", w.Body)
	}
	for _, c := range []struct {
		name, denies string
		also         []limiter.Part
		want         int64
	}{
		{"the first part", "a", []limiter.Part{all}, 1},
		{"another part", "everybody", []limiter.Part{all}, 3},
		{"a parent, of any part", "org", []limiter.Part{all}, 9},
		{"the parent of the only part", "org", nil, 1},
	} {
		denied := &limiter.LimitError{Entity: c.denies, Resource: "api", Limit: "rpm", Wanted: 9,
			Statuses: []limiter.Status{{Limit: "rpm"}}}
		asked := limiter.Request{Entity: "a", Resource: "api", Costs: limiter.Costs{"rpm": 1}, Also: c.also}
		body := httplimit.Denial{LimitError: denied, Request: asked}.Body()
		check.Equal(t, body.Limits[0].Requested, c.want, "%s denies: requested", c.name)
	}
}
