package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestMetrics(t *testing.T) {
	m := newMetrics(func() float64 { return 3 })
	for _, d := range []envoylimit.Decision{
		{Rule: "a|k=\"x\"\\\n", Hits: 2}, {Rule: "r", Hits: 3, Over: true}, {Rule: "r", Hits: 5, Shadow: true},
		{Rule: "r", Hits: 7, Over: true, Shadow: true}, {Rule: "r", Hits: 11, Shadow: true, Err: errors.New("x")},
		{Rule: "r", Hits: 13, Over: true}, {Rule: "\xff", Hits: 1},
	} {
		m.decision(d)
	}
	for _, e := range []limiter.Event{
		{Kind: limiter.EventAcquire, Elapsed: time.Millisecond, Writes: 2},
		{Kind: limiter.EventAcquire, Elapsed: time.Millisecond + 1, Err: limiter.ErrUnavailable},
		{Kind: limiter.EventAcquire, Elapsed: time.Minute, Writes: 1},
		{Kind: limiter.EventAcquire, Elapsed: time.Hour, Err: limiter.ErrNoLimits},
		{Kind: limiter.EventSplit, Elapsed: time.Hour},
	} {
		m.event(e)
	}
	m.config(nil)
	m.config(errors.New("x"))
	m.config(errors.New("x"))
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		"# TYPE zae_limiter_hits_total counter",
		`zae_limiter_hits_total{outcome="within",rule="a|k=\"x\"\\\n"} 2`,
		`zae_limiter_hits_total{outcome="within",rule="?"} 1`,
		`zae_limiter_hits_total{outcome="over",rule="r"} 16`,
		`zae_limiter_hits_total{outcome="within",rule="r"} 5`,
		`zae_limiter_hits_total{outcome="shadow",rule="r"} 7`,
		`zae_limiter_hits_total{outcome="undecided",rule="r"} 11`,
		`zae_limiter_events_total{kind="acquire",outcome="ok"} 2`,
		`zae_limiter_events_total{kind="acquire",outcome="unavailable"} 1`,
		`zae_limiter_events_total{kind="split",outcome=""} 1`,
		"zae_limiter_leases 3", "zae_limiter_writes_total 3",
		`zae_limiter_rules_read_total{result="in force"} 1`, `zae_limiter_rules_read_total{result="refused"} 2`,
		"# TYPE zae_limiter_acquire_seconds histogram",
		`zae_limiter_acquire_seconds_bucket{le="0.0001"} 0`, `zae_limiter_acquire_seconds_bucket{le="0.001"} 1`,
		`zae_limiter_acquire_seconds_bucket{le="0.0025"} 2`, `zae_limiter_acquire_seconds_bucket{le="5"} 2`,
		`zae_limiter_acquire_seconds_bucket{le="+Inf"} 3`, "zae_limiter_acquire_seconds_sum 60.002000001",
		"zae_limiter_acquire_seconds_count 3",
	} {
		if !strings.Contains("\n"+text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
