package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pricing"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// loadResult is the result of a load test.
type loadResult struct {
	Table, Arrivals    string
	Processes          int
	Offered, Admitted  int
	Denied             int
	DeniedWithoutACall int
	Failed             int

	Seconds                   float64
	Writes                    int64
	WritesPerGrant            float64
	DollarsPerMillionAdmitted float64

	LatencyMS       latencies // of requests that wrote to the table
	BehindArrivalMS latencies // how late this machine was

	Entities      []allowance
	TokensOver    int64
	ClocksApartMS float64 // at most; tokens refilled in that time are allowed
	PerSecond     []loadSecond

	plan        loadPlan
	bins        []loadSecond // like PerSecond, for each binWidth
	binWidth    time.Duration
	nearest     course
	firstError  error
	clocksKnown bool // how far all clocks are apart
}

type latencies struct {
	P50, P95, P99, Max float64
}

// loadSecond counts the requests that were made in one second of the test.
type loadSecond struct {
	Offered, Admitted, Denied, Failed int
	P50MS, P99MS                      float64
}

// count counts a request by its result.
func (s *loadSecond) count(err error) {
	s.Offered++
	switch {
	case err == nil:
		s.Admitted++
	case errors.Is(err, limiter.ErrLimited):
		s.Denied++
	default:
		s.Failed++
	}
}

// summarize computes the figures of a run. An error means that the run cannot be checked.
func summarize(p loadPlan, o outcome) (loadResult, error) {
	r := loadResult{
		Table: p.Table, Arrivals: p.Arrivals, Processes: p.Processes, Offered: len(o.samples), Seconds: o.took.Seconds(),
		Writes: o.writes, ClocksApartMS: float64(o.apart.Microseconds()) / 1000, plan: p, clocksKnown: o.clocksKnown,
	}
	var calls, late []time.Duration
	for _, s := range o.samples {
		late = append(late, s.late)
		denied := errors.Is(s.err, limiter.ErrLimited)
		switch {
		case s.calls:
			calls = append(calls, s.end-s.start)
		case denied:
			r.DeniedWithoutACall++
		}
		if s.err != nil && !denied {
			r.firstError = cmp.Or(r.firstError, s.err)
		}
	}
	r.PerSecond, r.LatencyMS, r.BehindArrivalMS = binned(p, o.samples, time.Second), latenciesOf(calls), latenciesOf(late)
	for _, s := range r.PerSecond {
		r.Admitted, r.Denied, r.Failed = r.Admitted+s.Admitted, r.Denied+s.Denied, r.Failed+s.Failed
	}
	r.binWidth = binWidth(p)
	r.bins = binned(p, o.samples, r.binWidth)
	if r.Admitted > 0 {
		r.WritesPerGrant = float64(o.writes) / float64(r.Admitted)
		r.DollarsPerMillionAdmitted = r.WritesPerGrant * pricing.DollarsPerMillionWrites
	}
	var err error
	r.Entities, r.nearest, r.TokensOver, err = judge(p, o.samples, o.apart)
	return r, err
}

// binWidth is the time that a bar of the report covers: a second, or more in a long test. Bars
// longer than a second would hide bursts, which come every second.
func binWidth(p loadPlan) time.Duration {
	const most = 600 // bars
	if p.Arrivals == bursts {
		return min(max(p.Duration/most, 100*time.Millisecond).Round(100*time.Millisecond), time.Second/2)
	}
	return max(p.Duration/most, time.Second).Round(time.Second)
}

// binned counts the samples in bins of the width. Late samples go into the last bin.
func binned(p loadPlan, samples []sample, width time.Duration) []loadSecond {
	bins := make([]loadSecond, p.Duration/width+1)
	sent := make([][]time.Duration, len(bins))
	for _, s := range samples {
		at := min(int(s.start/width), len(bins)-1)
		bins[at].count(s.err)
		if s.calls {
			sent[at] = append(sent[at], s.end-s.start)
		}
	}
	for i := range bins {
		l := latenciesOf(sent[i])
		bins[i].P50MS, bins[i].P99MS = l.P50, l.P99
	}
	for len(bins) > 1 && bins[len(bins)-1].Offered == 0 {
		bins = bins[:len(bins)-1]
	}
	return bins
}

// latenciesOf returns percentiles in milliseconds. They are zero without samples.
func latenciesOf(all []time.Duration) latencies {
	if len(all) == 0 {
		return latencies{}
	}
	all = slices.Sorted(slices.Values(all))
	at := func(q float64) float64 {
		return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000
	}
	return latencies{at(0.5), at(0.95), at(0.99), at(1)}
}

// figure is one line of the report.
type figureText struct{ Name, Value string }

func (r loadResult) figures() []figureText {
	ms := func(l latencies) string {
		return fmt.Sprintf("%.1f, %.1f, %.1f, %.1f ms", l.P50, l.P95, l.P99, l.Max)
	}
	return []figureText{
		{"offered", fmt.Sprintf("%d, %s, all answered after %.1f s", r.Offered, r.Arrivals, r.Seconds)},
		{"admitted", fmt.Sprint(r.Admitted)},
		{"denied", fmt.Sprintf("%d, %d of them without asking DynamoDB", r.Denied, r.DeniedWithoutACall)},
		{"no decision", fmt.Sprint(r.Failed)},
		{"tokens above what is allowed", fmt.Sprint(r.TokensOver)},
		{"clocks apart at most", r.clocksText()},
		{"latency p50, p95, p99, max", ms(r.LatencyMS)},
		{"sent late by p50, p95, p99, max", ms(r.BehindArrivalMS)},
		{"writes for each admitted", fmt.Sprintf("%.2f", r.WritesPerGrant)},
		{"$ for a million admitted",
			fmt.Sprintf("%.3f, one unit a write, on demand in us-east-1", r.DollarsPerMillionAdmitted)},
	}
}

// clocksText describes how far the clocks that refill may differ.
func (r loadResult) clocksText() string {
	if !r.clocksKnown {
		return "unknown; assumed to agree"
	}
	return fmt.Sprintf("%.0f ms; the refill of that time is allowed", r.ClocksApartMS)
}
