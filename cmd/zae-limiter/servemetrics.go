package main

import (
	"errors"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// metrics counts the work of serve, for Prometheus. It has no labels for entity or resource: there
// may be millions. It is safe for concurrent use.
type metrics struct {
	registry            *prometheus.Registry
	hits, events, rules *prometheus.CounterVec
	writes              prometheus.Counter
	seconds             prometheus.Histogram
}

// newMetrics returns metrics with the number of leases that clients hold.
func newMetrics(leases func() float64) *metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	register := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "zae_limiter_leases", Help: "Leases that clients of the API hold."}, leases)
	return &metrics{
		registry: r,
		hits: counter("zae_limiter_hits_total",
			"Hits by rule: within the limit, over it, over it in shadow mode, or without a decision.", "rule", "outcome"),
		events: counter("zae_limiter_events_total", "What the limiter did, by kind and outcome.", "kind", "outcome"),
		rules: counter("zae_limiter_rules_read_total",
			"Changed rules, by whether they are in force or were refused.", "result"),
		writes: register.NewCounter(prometheus.CounterOpts{Name: "zae_limiter_writes_total", Help: "Writes to the table."}),
		seconds: register.NewHistogram(prometheus.HistogramOpts{
			Name: "zae_limiter_acquire_seconds", Help: "How long the limiter took to decide.",
			Buckets: []float64{.0001, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}}),
	}
}

// decision counts the hits of a descriptor.
func (m *metrics) decision(d envoylimit.Decision) {
	outcome := "within"
	switch {
	case d.Err != nil:
		outcome = "undecided"
	case d.Over && d.Shadow:
		outcome = "shadow"
	case d.Over:
		outcome = "over"
	}
	m.hits.WithLabelValues(strings.ToValidUTF8(d.Rule, "?"), outcome).Add(float64(d.Hits))
}

// event counts an event of the limiter. Missing stored limits do not count: the service looks for
// stored limits first.
func (m *metrics) event(e limiter.Event) {
	if errors.Is(e.Err, limiter.ErrNoLimits) {
		return
	}
	m.events.WithLabelValues(e.Kind.String(), e.Outcome()).Inc()
	m.writes.Add(float64(e.Writes))
	if e.Kind == limiter.EventAcquire {
		m.seconds.Observe(e.Elapsed.Seconds())
	}
}

// config counts changed rules.
func (m *metrics) config(err error) {
	m.rules.WithLabelValues(map[bool]string{true: "in force", false: "refused"}[err == nil]).Inc()
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
