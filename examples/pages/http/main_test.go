package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestLimited(t *testing.T) {
	table := limitertest.New(t)
	if err := table.Admin("").SetLimits(t.Context(), admin.Scope{}, limiter.PerMinute("rpm", 1)); err != nil {
		t.Fatal(err)
	}
	h := limited(table.Limiter(nil), http.NotFoundHandler())
	for i, want := range []int{http.StatusNotFound, http.StatusTooManyRequests, http.StatusUnauthorized} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/hello", nil)
		if want != http.StatusUnauthorized {
			r.Header.Set("X-Api-Key", "demo")
		}
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
}
