package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// apiRig is an API with room for three leases, and its table: acme has 10 rpm and 2 jobs on "api".
type apiRig struct {
	*testing.T
	table *limitertest.Table
	ns    *admin.Namespace
	mux   *http.ServeMux
	held  *leases

	reported atomic.Int64
}

func newAPIRig(t *testing.T, table *limitertest.Table) *apiRig {
	r := &apiRig{T: t, table: table, ns: table.Admin(""), mux: http.NewServeMux(), held: newLeases(3)}
	for scope, limits := range map[admin.Scope][]limiter.Limit{
		{Entity: "acme", Resource: "api"}: {limiter.PerMinute("rpm", 10), limiter.InFlight("jobs", 2, 5*time.Second)},
		{Entity: "off", Resource: "api"}:  {limiter.PerMinute("rpm", 10)},
	} {
		check.Must(t, r.ns.SetLimits(t.Context(), scope, limits...))
	}
	off := admin.Scope{Entity: "off", Resource: "api"}
	check.Must(t, check.Err(r.ns.SetAccess(t.Context(), off, admin.AccessDisabled)))
	(&api{table.Limiter(nil), r.ns, r.held, func(error) { r.reported.Add(1) }}).register(r.mux)
	return r
}

// post sends a body, and returns the answer and its JSON.
func (r *apiRig) post(path, body string) (*httptest.ResponseRecorder, map[string]any) {
	r.Helper()
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/"+path, strings.NewReader(body)))
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		r.Fatalf("%s %s: %v: %s", path, body, err, w.Body)
	}
	return w, out
}

// wants sends a body, and wants a status.
func (r *apiRig) wants(status int, path, body string) map[string]any {
	r.Helper()
	w, out := r.post(path, body)
	if w.Code != status {
		r.Errorf("%s %.200s: %d %v, want %d", path, body, w.Code, out, status)
	}
	return out
}

// lease acquires one, and returns the body that names it.
func (r *apiRig) lease(costs string) string {
	r.Helper()
	out := r.wants(http.StatusOK, "acquire",
		`{"entity": "acme", "resource": "api", "lease_seconds": 60, "costs": `+costs+`}`)
	return fmt.Sprintf(`{"lease": %q}`, out["lease"])
}

// left returns what is left of a limit.
func (r *apiRig) left(limit string) (n int64) {
	r.Helper()
	out := r.wants(http.StatusOK, "peek", `{"entity": "acme", "resource": "api"}`)
	for _, l := range out["limits"].([]any) {
		if l := l.(map[string]any); l["limit_name"] == limit {
			return int64(l["available"].(float64))
		}
	}
	r.Fatalf("no limit %s: %v", limit, out)
	return 0
}

func (r *apiRig) leaves(limit string, want int64) {
	r.Helper()
	if got := r.left(limit); got != want {
		r.Errorf("%d %s are left, want %d", got, limit, want)
	}
}

const (
	takeOne   = `{"entity": "acme", "resource": "api", "costs": {"rpm": 1}}`
	takeSeven = `{"entity": "acme", "resource": "api", "costs": {"rpm": 7}}`
)

func TestAPI(t *testing.T) {
	r := newAPIRig(t, limitertest.New(t))
	r.table.Trouble(notGranted)
	out := r.wants(http.StatusOK, "acquire", takeSeven)
	if _, has := out["lease"]; has || out["charged"] != true || len(out["limits"].([]any)) != 2 {
		t.Errorf("%v", out)
	}
	w, out := r.post("acquire", takeSeven)
	if w.Code != http.StatusTooManyRequests || out["retry_after_ms"] != 24_000.0 ||
		w.Header().Get("Retry-After") != "24" || w.Header().Get("RateLimit") != `"jobs";r=2, "rpm";r=3;t=24` ||
		w.Header().Get("RateLimit-Policy") != `"jobs";q=2, "rpm";q=10;w=60` {
		t.Errorf("denied: %d %v %v", w.Code, out, w.Header())
	}
	r.table.Advance(24*time.Second - time.Millisecond)
	r.wants(http.StatusTooManyRequests, "acquire", takeSeven)
	r.table.Advance(time.Millisecond)
	r.wants(http.StatusOK, "acquire", takeSeven)
	r.leaves("rpm", 0)

	r.table.Advance(time.Minute)
	more, less, none := r.lease(`{"rpm": 3, "jobs": 1}`), r.lease(`{"rpm": 3}`), r.lease(`{"rpm": 3, "jobs": 1}`)
	r.leaves("rpm", 1)
	r.leaves("jobs", 0)
	with := func(lease, costs string) string { return strings.Replace(lease, "}", `, "costs": `+costs+`}`, 1) }
	r.wants(http.StatusOK, "settle", with(more, `{"rpm": 5}`))
	r.leaves("rpm", -1)
	r.leaves("jobs", 1)
	r.wants(http.StatusOK, "settle", less)
	r.leaves("rpm", -1)
	r.wants(http.StatusOK, "release", none)
	r.leaves("rpm", 2)
	r.leaves("jobs", 2)
	for _, ended := range []string{more, less, none} {
		r.wants(http.StatusNotFound, "settle", with(ended, `{"rpm": 9}`))
		r.wants(http.StatusNotFound, "release", ended)
	}
	r.leaves("rpm", 2)
}

// A request that is not acceptable gets an answer that says why, and does nothing.
func TestAPIRefuses(t *testing.T) {
	r := newAPIRig(t, limitertest.New(t))
	lease := r.lease(`{"rpm": 1}`)
	name := func(s string) string { return strings.Replace(takeOne, "acme", s, 1) }
	cost := func(s string) string { return strings.Replace(takeOne, `"rpm": 1`, s, 1) }
	for _, c := range []struct {
		path, body string
		status     int
		want       string // of the message or the error
	}{
		{"acquire", "", 400, "EOF"},
		{"acquire", "{", 400, "unexpected EOF"},
		{"acquire", "[]", 400, "cannot unmarshal array"},
		{"acquire", "null", 400, `Entity is ""`},
		{"acquire", takeOne + takeOne, 400, "more than one JSON value"},
		{"acquire", takeOne + "}", 400, "more than one JSON value"},
		{"acquire", name("\xff"), 400, "not UTF-8"},
		{"acquire", name(`\udcff`), 400, "not UTF-8"},
		{"acquire", cost(`"rpm\ud800": 1`), 400, "not UTF-8"},
		{"peek", `{"entity": "acme", "resource": "\ud800"}`, 400, "not UTF-8"},
		{"acquire", name(strings.Repeat("x", 1<<10+1)), 400, "Entity is"},
		{"acquire", name(`a\u0007b`), 400, "Entity is"},
		{"acquire", name(""), 400, "Entity is"},
		{"acquire", name("nobody"), 400, "no limits"},
		{"acquire", cost(""), 400, "Costs is empty"},
		{"acquire", cost(`"rpm": -1`), 400, `Costs["rpm"] is -1`},
		{"acquire", cost(`"rpm": 1.5`), 400, "number 1.5"},
		{"acquire", cost(`"rpm": "1"`), 400, "string"},
		{"acquire", cost(`"rpm": 99999999999999999999`), 400, "number 99999999999999999999"},
		{"acquire", cost(`"tpm": 1`), 400, "tpm"},
		{"acquire", cost(`"rpm": 4294967295`), 413, "request_too_large"},
		{"acquire", strings.Replace(takeOne, "{", `{"tokens": 1, `, 1), 400, `unknown field "tokens"`},
		{"acquire", strings.Replace(takeOne, "{", `{"class": "a b", `, 1), 400, "Class is"},
		{"acquire", strings.Replace(takeOne, "{", `{"lease_seconds": -1, `, 1), 400, "lease_seconds is -1, want 0 to 86400"},
		{"acquire", strings.Replace(takeOne, "{", `{"lease_seconds": 86401, `, 1), 400, "lease_seconds is 86401"},
		{"acquire", takeOne + strings.Repeat(" ", maxAPIBody), 413, "request_entity_too_large"},
		{"acquire", name("off"), 403, "resource_disabled"},
		{"settle", `{"lease": ""}`, 404, "not_found"},
		{"settle", `{"lease": "` + strings.Repeat("x", 1<<10) + `"}`, 404, "not_found"},
		{"settle", strings.Replace(lease, "}", `, "costs": {"tpm": 1}}`, 1), 400, "tpm"},
		{"settle", strings.Replace(lease, "}", `, "costs": {"rpm": -1}}`, 1), 400, "rpm"},
		{"release", strings.Replace(lease, "}", `, "costs": {"rpm": 1}}`, 1), 400, `unknown field "costs"`},
		{"peek", `{"entity": "acme"}`, 400, "Resource is"},
		{"peek", `{"entity": "nobody", "resource": "api"}`, 400, "no limits"},
	} {
		out := r.wants(c.status, c.path, c.body)
		if got := fmt.Sprint(out["message"], " ", out["error"]); !strings.Contains(got, c.want) {
			t.Errorf("%s %.100s: %s, want %s", c.path, c.body, got, c.want)
		}
	}
	r.leaves("rpm", 9)
	r.wants(http.StatusOK, "release", lease)
	r.leaves("rpm", 10)
	check.Equal(t, r.reported.Load(), 0, "reported: clients know why")
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/acquire", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", w.Code, w.Header())
	}
}

// Without an answer of the table nothing is taken, and a lease that cannot be ended now can be later.
func TestAPIWithoutTheTable(t *testing.T) {
	r := newAPIRig(t, limitertest.New(t))
	lease := r.lease(`{"rpm": 1}`)
	settlement := strings.Replace(lease, "}", `, "costs": {"rpm": 4}}`, 1)
	r.table.Trouble(limitertest.Trouble{Operations: []string{"UpdateItem"}, Err: limiter.ErrUnavailable})
	r.wants(http.StatusServiceUnavailable, "settle", settlement)
	if w, out := r.post("acquire", strings.Replace(takeOne, "{", `{"lease_seconds": 1, `, 1)); w.Code != 503 ||
		w.Header().Get("Retry-After") != "1" || out["error"] != "rate_limiter_unavailable" {
		t.Errorf("%d %v", w.Code, out)
	}
	r.table.Trouble()
	r.leaves("rpm", 9)
	r.wants(http.StatusOK, "settle", settlement)
	r.leaves("rpm", 6)
	check.Equal(t, len(r.held.room), 0, "leases are held")
	r.table.Trouble(limitertest.Trouble{Operations: []string{"BatchGetItem"}, Err: limitertest.ErrDenied})
	r.wants(http.StatusInternalServerError, "peek", `{"entity": "acme", "resource": "api"}`)
	check.Equal(t, r.reported.Load(), 3, "reported, want those of a settlement, an acquire and a peek")
}

// Leases are bounded in number: what would be one more takes nothing.
func TestLeasesAreBounded(t *testing.T) {
	r := newAPIRig(t, limitertest.New(t))
	first := r.lease(`{"rpm": 1}`)
	r.lease(`{"rpm": 1}`)
	r.lease(`{"rpm": 1}`)
	r.wants(http.StatusServiceUnavailable, "acquire", strings.Replace(takeOne, "{", `{"lease_seconds": 1, `, 1))
	r.leaves("rpm", 7)
	r.wants(http.StatusOK, "acquire", takeOne) // without a lease
	r.wants(http.StatusOK, "release", first)
	last := r.lease(`{"rpm": 7}`)
	r.wants(http.StatusOK, "release", last)
	for range 4 { // what is denied or fails has no lease
		r.wants(http.StatusTooManyRequests, "acquire",
			`{"entity": "acme", "resource": "api", "lease_seconds": 1, "costs": {"rpm": 8}}`)
		r.wants(http.StatusBadRequest, "acquire",
			`{"entity": "acme", "resource": "api", "lease_seconds": 1, "costs": {"tpm": 1}}`)
	}
	r.lease(`{"rpm": 7}`)
}

// Of many that end one lease at once, one does.
func TestLeasesEndOnce(t *testing.T) {
	r := newAPIRig(t, limitertest.New(t))
	lease := r.lease(`{"rpm": 4, "jobs": 1}`)
	var ended atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			w := httptest.NewRecorder()
			r.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/release", strings.NewReader(lease)))
			if w.Code == http.StatusOK {
				ended.Add(1)
			}
		})
	}
	all.Wait()
	check.Equal(t, ended.Load(), 1, "ended times")
	r.leaves("rpm", 10)
	r.leaves("jobs", 2)
}

// A lease ends after its time: what it took stays taken, and its slots are free. Meanwhile it is held for
// longer than an epoch.
func TestLeasesEndAfterTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAPIRig(t, limitertest.NewLive(t))
		check.Must(t, r.ns.SetLimits(t.Context(), admin.Scope{Entity: "acme", Resource: "api"},
			limiter.PerHour("rpm", 10), limiter.InFlight("jobs", 2, 5*time.Second)))
		lease := r.lease(`{"rpm": 4, "jobs": 1}`)
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		r.leaves("jobs", 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.leaves("rpm", 6)
		r.leaves("jobs", 2)
		r.wants(http.StatusNotFound, "settle", lease)
		check.Equal(t, len(r.held.room), 0, "leases are held")
	})
}

// A settlement that failed is tried once more when the time of its lease is over.
func TestFailedSettlementsAreTriedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAPIRig(t, limitertest.NewLive(t))
		lease := r.lease(`{"rpm": 10}`)
		r.table.Trouble(limitertest.Trouble{Operations: []string{"UpdateItem"}, Err: limiter.ErrUnavailable})
		r.wants(http.StatusServiceUnavailable, "settle", strings.Replace(lease, "}", `, "costs": {"rpm": 20}}`, 1))
		r.table.Trouble()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.leaves("rpm", 0) // 10 are refilled
		check.Equal(t, len(r.held.room), 0, "leases are held")
	})
}

// A settlement that fails after the time of its lease is tried once more, too.
func TestSettlementsThatFailLateAreTriedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAPIRig(t, limitertest.NewLive(t))
		lease := r.lease(`{"rpm": 10, "jobs": 1}`)
		time.Sleep(time.Minute - time.Second)
		r.table.Trouble(limitertest.Trouble{Operations: []string{"UpdateItem"}, Err: limiter.ErrUnavailable,
			Delay: 2 * time.Second, Times: 4})
		r.wants(http.StatusServiceUnavailable, "settle", strings.Replace(lease, "}", `, "costs": {"rpm": 30}}`, 1))
		r.leaves("rpm", -10) // 10 were refilled, and 20 more taken
		r.leaves("jobs", 2)
		check.Equal(t, len(r.held.room), 0, "leases are held")
	})
}

// What open leases took stays taken when the service ends, and their slots are free. What was settled just
// before is written, also where it could not be at first.
func TestServeEndsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.New(t)
		r := newAPIRig(t, table) // another process
		s := serveFrom(t, table, "--ahead", "500ms")
		post := func(path, body string) string {
			t.Helper()
			resp, err := s.post("/v1/"+path, body)
			check.Must(t, err)
			defer func() { _ = resp.Body.Close() }()
			var out struct{ Lease string }
			if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
			}
			return out.Lease
		}
		const acquire = `{"entity": "acme", "resource": "api", "costs": {"rpm": 2, "jobs": 1}, "lease_seconds": 3600}`
		post("acquire", acquire)
		settled := post("acquire", acquire)
		if _, text := s.get("/metrics"); !strings.Contains(text, "\nzae_limiter_leases 2\n") {
			t.Errorf("/metrics:\n%s", text)
		}
		post("settle", fmt.Sprintf(`{"lease": %q, "costs": {"rpm": 5}}`, settled))
		late := post("acquire", `{"entity": "acme", "resource": "api", "costs": {"rpm": 1}, "lease_seconds": 3600}`)
		table.Trouble(limitertest.Trouble{Operations: []string{"UpdateItem"}, Err: limiter.ErrUnavailable})
		post("settle", fmt.Sprintf(`{"lease": %q, "costs": {"rpm": 2}}`, late)) // it waits, and does not fail
		table.Trouble()
		s.stop()
		check.Equal(t, <-s.code, 0, "ended in")
		r.leaves("rpm", 1)
		r.leaves("jobs", 2)
	})
}
