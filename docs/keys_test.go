package docs_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// The code of choosing-keys.md.

// keyOf returns the entity of a request with an API key that we have issued.
func keyOf(r *http.Request, issued func(key string) bool) (string, error) {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !issued(key) {
		return "", errors.New("no valid key")
	}
	return limiter.Hashed(key), nil
}

type claimsKey struct{}

type claims struct{ Issuer, Tenant string }

// tenantOfToken returns the entity of a request whose token was verified.
func tenantOfToken(r *http.Request) (string, error) {
	claims, ok := r.Context().Value(claimsKey{}).(claims) // put there by the middleware that has verified it
	if !ok || claims.Tenant == "" {
		return "", errors.New("no verified token")
	}
	return claims.Issuer + " " + claims.Tenant, nil
}

// byAddress limits each address that asks for a page before it has signed in.
func byAddress(l *limiter.Limiter, page http.Handler) (http.Handler, error) {
	clientIP, err := httplimit.ClientIP("10.0.0.0/16") // the subnets of our load balancer
	if err != nil {
		return nil, err
	}
	limit := httplimit.New(l, httplimit.Options{Request: func(r *http.Request) (limiter.Request, error) {
		one := limiter.Costs{"rpm": 1}
		return limiter.Request{Entity: clientIP(r), Resource: "login", Costs: one, Also: []limiter.Part{
			{Entity: "everybody", Resource: "login", Costs: one}}}, nil // of both, or of neither
	}})
	return limit(page), nil
}

func TestKeyOf(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	issued := func(key string) bool { return key == "s3cret" }
	if got, err := keyOf(r, issued); err == nil {
		t.Errorf("without a key: %q", got)
	}
	r.Header.Set("Authorization", "Bearer made up")
	if got, err := keyOf(r, issued); err == nil {
		t.Errorf("with a made-up key: %q", got)
	}
	r.Header.Set("Authorization", "Bearer s3cret")
	if got, err := keyOf(r, issued); err != nil || strings.Contains(got, "s3cret") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTenantOfToken(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if got, err := tenantOfToken(r); err == nil {
		t.Errorf("without a token: %q", got)
	}
	of := claims{Issuer: "https://login.example.com/", Tenant: "acme"}
	got, err := tenantOfToken(r.WithContext(context.WithValue(t.Context(), claimsKey{}, of)))
	if err != nil {
		t.Fatal(err)
	}
	l := limitertest.New(t).Limiter(nil)
	if err := l.Allow(t.Context(), got, limiter.PerMinute("rpm", 1)); err != nil {
		t.Errorf("%q is no entity: %v", got, err)
	}
}

func TestByAddress(t *testing.T) {
	table := limitertest.New(t)
	for entity, n := range map[string]int64{"": 1, "everybody": 2} {
		scope := admin.Scope{Entity: entity}
		if err := table.Admin("").SetLimits(t.Context(), scope, limiter.PerMinute("rpm", n)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := byAddress(table.Limiter(nil), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		forwarded string
		want      int
	}{{"203.0.113.9", 404}, {"1.2.3.4, 203.0.113.9", 429}, {"203.0.113.10", 404}, {"203.0.113.11", 429}} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:4711"
		r.Header.Set("X-Forwarded-For", c.forwarded)
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.forwarded, w.Code, c.want)
		}
	}
}
