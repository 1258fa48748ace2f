package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// cors is a middleware as others write them: all requests share the list that it names.
func cors(next http.Handler) http.Handler {
	exposed := append(make([]string, 0, 9), "X-Request-Id")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Access-Control-Allow-Origin"] = []string{"*"}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header()["Access-Control-Expose-Headers"] = exposed
		next.ServeHTTP(w, r)
	})
}

// call sends a request to a server; fields are names and values.
func call(t *testing.T, h http.Handler, method, body string, fields ...string) *http.Response {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL, strings.NewReader(body))
	check.Must(t, err)
	for pair := range slices.Chunk(fields, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	a, err := srv.Client().Do(r)
	check.Must(t, err)
	a.Body.Close()
	return a
}

// Scripts of another origin may read what tells of limits, whoever else names fields, and however the
// request ends. Others get no field more.
func TestScriptsReadTheFields(t *testing.T) {
	const field = "Access-Control-Expose-Headers"
	table := limitertest.New(t)
	limit := func(fields ...httplimit.Fields) func(http.Handler) http.Handler {
		return httplimit.New(table.Limiter(nil), httplimit.Options{Request: request, Fields: fields})
	}
	lists, x := "Ratelimit, Ratelimit-Policy", ", X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset"
	custom := func(h http.Header, _ []limiter.Status) { h.Set("My-Limit", "1") }
	for _, c := range []struct {
		name    string
		handler http.Handler
		want    []string // of the first request, the third, and one without an answer of the table
	}{
		{"alone", limit()(fine), []string{lists, "Retry-After, " + lists, "Retry-After"}},
		{"two sorts", limit(httplimit.RateLimit, httplimit.XRateLimit)(fine),
			[]string{lists + x, "Retry-After, " + lists + x, "Retry-After"}},
		{"custom", limit(custom)(fine), []string{"My-Limit", "Retry-After, My-Limit", "Retry-After"}},
		{"silent", limit([]httplimit.Fields{}...)(fine), []string{"", "Retry-After", "Retry-After"}},
		{"nested", limit()(limit(custom)(fine)), []string{lists + ", My-Limit", "Retry-After, " + lists, "Retry-After"}},
		{"within cors", cors(limit()(fine)), []string{"X-Request-Id, " + lists, "X-Request-Id, Retry-After, " + lists,
			"X-Request-Id, Retry-After"}},
	} {
		for i, want := range c.want {
			key := c.name
			switch i {
			case 1:
				call(t, c.handler, http.MethodGet, "", "X-Api-Key", key)
			case 2:
				key += " that is new"
				table.Fail(limiter.ErrUnavailable)
			}
			a := call(t, c.handler, http.MethodGet, "", "X-Api-Key", key, "Origin", "https://example.com")
			check.Equal(t, strings.Join(a.Header.Values(field), " | "), want,
				"%s, request %d, %s: exposed", c.name, i, a.Status)
			table.Fail(nil)
		}
		if a := call(t, c.handler, http.MethodGet, "", "X-Api-Key", c.name); strings.Contains(a.Header.Get(field), "Rat") {
			t.Errorf("%s: without an origin %q are exposed", c.name, a.Header.Get(field))
		}
	}
}

// A handler that limits by itself answers denials so that scripts can read the wait.
func TestDenialsOfHandlersAreRead(t *testing.T) {
	a := call(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httplimit.WriteDenied(w, r, httplimit.Denial{LimitError: &limiter.LimitError{}})
	}), http.MethodGet, "", "Origin", "https://example.com")
	check.Equal(t, a.Header.Get("Access-Control-Expose-Headers"), "Retry-After", "exposed")
}

// A preflight is no request that is limited, and nothing that merely looks like one is let through.
func TestPreflights(t *testing.T) {
	table := limitertest.New(t)
	h := httplimit.New(table.Limiter(nil), httplimit.Options{Request: request, Skip: httplimit.IsPreflight})(cors(fine))
	origin, asks := []string{"Origin", "https://example.com"}, []string{"Access-Control-Request-Method", "PUT"}
	for _, c := range []struct {
		method, body string
		fields       []string
		want         int
	}{
		{http.MethodOptions, "", slices.Concat(origin, asks), http.StatusNoContent},
		{http.MethodOptions, "body", slices.Concat(origin, asks), http.StatusUnauthorized},
		{http.MethodOptions, "", origin, http.StatusUnauthorized},
		{http.MethodOptions, "", asks, http.StatusUnauthorized},
		{http.MethodOptions, "", nil, http.StatusUnauthorized},
		{http.MethodGet, "", slices.Concat(origin, asks), http.StatusUnauthorized},
		{"options", "", slices.Concat(origin, asks), http.StatusUnauthorized},
	} {
		for range 3 { // of two a minute
			a := call(t, h, c.method, c.body, c.fields...)
			check.Equal(t, a.StatusCode, c.want, "%s %q %q: %s", c.method, c.body, c.fields, a.Status)
		}
	}
}
