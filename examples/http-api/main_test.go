package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// The API as a client sees it, on a local DynamoDB: a burst passes, then it is denied,
// and another tenant is not.
func TestAPI(t *testing.T) {
	db, name := engine.ForTest(t, engine.Dynoxide).DynamoDB(), engine.UniqueName("http-api")
	if _, err := limitertable.Create(t.Context(), db, name); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l, err := limiter.Open(t.Context(), db, name, &limiter.Options{
		Register: true, Timeout: time.Hour, Now: func() time.Time { return now }, // however slow the machine is
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler(l))
	defer srv.Close()
	get := func(path, key string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(body)
	}
	if a, body := get("/", ""); a.StatusCode != 200 || !strings.Contains(body, "A bucket drains and refills") {
		t.Errorf("the page: %s", a.Status)
	}
	granted := 0
	var denied *http.Response
	for range 100 {
		a, body := get("/api/hello", "demo")
		if a.StatusCode == http.StatusTooManyRequests {
			denied = a
			break
		}
		if granted++; a.StatusCode != 200 || body != "hello acme\n" ||
			!strings.Contains(a.Header.Get("RateLimit-Policy"), `"requests";q=10;w=10`) {
			t.Fatalf("%s: %s", a.Status, body)
		}
	}
	if granted != 10 || denied == nil || denied.Header.Get("Retry-After") != "1" ||
		denied.Header.Get("X-RateLimit-Limit") != "10" {
		t.Errorf("%d granted, then %+v", granted, denied)
	}
	if a, body := get("/api/hello?credits=200", "other"); a.StatusCode != 200 || body != "hello umbrella\n" {
		t.Errorf("another tenant: %s", a.Status)
	}
	for path, status := range map[string]int{"/api/hello?credits=x": 400, "/api/hello?credits=201": 400} {
		if a, _ := get(path, "other"); a.StatusCode != status {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if a, _ := get("/api/hello", "made up"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a key that nobody knows: %s", a.Status)
	}
}
