package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A scrape has what the limiter did.
func TestScrape(t *testing.T) {
	obs, err := observer()
	if err != nil {
		t.Fatal(err)
	}
	l := limitertest.New(t).Limiter(&limiter.Options{Observe: obs.Observe})
	if err := l.Allow(t.Context(), "acme", limiter.PerSecond("rps", 10)); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, metric := range []string{"acquire_duration_seconds_count", "writes_total", "tokens"} {
		if !strings.Contains(w.Body.String(), "\nzae_limiter_"+metric+"{") {
			t.Errorf("no %s in\n%s", metric, w.Body)
		}
	}
}
