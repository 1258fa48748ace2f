package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// loadResult is what a load test has seen.
type loadResult struct {
	Table      string `json:"table"`
	Arrivals   string `json:"arrivals"`
	Processes  int    `json:"processes"`
	Offered    int    `json:"offered"`
	Admitted   int    `json:"admitted"`
	Denied     int    `json:"denied"`
	DeniedFree int    `json:"denied_without_a_call"`
	Failed     int    `json:"failed"`

	Seconds        float64 `json:"seconds"`
	Writes         int64   `json:"writes"`
	WritesPerGrant float64 `json:"writes_per_grant"`
	Dollars        float64 `json:"dollars_per_million_admitted"`

	Latency latencies `json:"latency_ms"`        // of requests that were sent to the table
	Late    latencies `json:"behind_arrival_ms"` // how far this machine was behind

	Allowances []allowance  `json:"entities"`
	Over       int64        `json:"tokens_over"`
	PerSecond  []loadSecond `json:"per_second"`

	plan       loadPlan
	firstError error
}

type latencies struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// allowance compares what one entity was admitted with what its limit allows at
// most: a full bucket at the beginning, and the refill until the end.
type allowance struct {
	Entity   string `json:"entity"`
	Limit    string `json:"limit"`
	Admitted int64  `json:"admitted"`
	Allowed  int64  `json:"allowed"`
}

// loadSecond is one second of the test, by arrival.
type loadSecond struct {
	Offered  int     `json:"offered"`
	Admitted int     `json:"admitted"`
	Denied   int     `json:"denied"`
	Failed   int     `json:"failed"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
}

// summarize computes the figures of a run.
func summarize(p loadPlan, o outcome) loadResult {
	r := loadResult{
		Table: p.Table, Arrivals: p.Arrivals, Processes: p.Processes, Offered: len(o.samples), Seconds: o.took.Seconds(),
		Writes: o.writes, plan: p,
	}
	seconds := make([]loadSecond, int(p.Duration/time.Second)+1)
	sent := make([][]time.Duration, len(seconds))
	var calls, late []time.Duration
	for _, s := range o.samples {
		at := min(int(s.start/time.Second), len(seconds)-1)
		second := &seconds[at]
		second.Offered++
		late = append(late, s.late)
		switch {
		case s.err == nil:
			r.Admitted++
			second.Admitted++
		case errors.Is(s.err, limiter.ErrLimited):
			r.Denied++
			second.Denied++
			if !s.calls {
				r.DeniedFree++
			}
		default:
			r.Failed++
			second.Failed++
			if r.firstError == nil {
				r.firstError = s.err
			}
		}
		if s.calls {
			calls = append(calls, s.end-s.start)
			sent[at] = append(sent[at], s.end-s.start)
		}
	}
	for i := range seconds {
		l := latenciesOf(sent[i])
		seconds[i].P50, seconds[i].P99 = l.P50, l.P99
	}
	for len(seconds) > 1 && seconds[len(seconds)-1].Offered == 0 {
		seconds = seconds[:len(seconds)-1]
	}
	r.PerSecond, r.Latency, r.Late = seconds, latenciesOf(calls), latenciesOf(late)
	if r.Admitted > 0 {
		r.WritesPerGrant = float64(o.writes) / float64(r.Admitted)
		r.Dollars = r.WritesPerGrant * dollarsPerMillion
	}
	r.Allowances, r.Over = allowances(p, o.samples)
	return r
}

// latenciesOf returns percentiles in milliseconds, zero of nothing.
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

// allowances returns what every entity was admitted and allowed of every limit, and
// the sum of what is over. All grants of an entity lie between the start of its first
// request and the end of its last.
func allowances(p loadPlan, samples []sample) (out []allowance, over int64) {
	type span struct {
		first, last time.Duration
		grants      int64
		limits      []limiter.Status
	}
	spans := make([]span, p.Entities)
	for _, s := range samples {
		e := &spans[s.entity]
		if s.err != nil {
			continue
		}
		if e.grants == 0 || s.start < e.first {
			e.first = s.start
		}
		e.last = max(e.last, s.end)
		e.grants++
		if len(s.limits) > 0 {
			e.limits = s.limits
		}
	}
	for i, e := range spans {
		for _, l := range e.limits {
			cost := p.Costs[l.Limit]
			if cost == 0 || l.Entity != fmt.Sprintf("%s%d", p.Prefix, i+1) {
				continue
			}
			refill := float64(l.Refill) * float64(e.last-e.first) / float64(l.Period)
			one := allowance{l.Entity, l.Limit, e.grants * cost, l.Capacity + int64(refill)}
			out = append(out, one)
			over += max(0, one.Admitted-one.Allowed)
		}
	}
	return out, over
}

// figure is one line of the report.
type figureText struct{ Name, Value string }

func (r loadResult) figures() []figureText {
	ms := func(l latencies) string {
		return fmt.Sprintf("%.1f, %.1f, %.1f, %.1f ms", l.P50, l.P95, l.P99, l.Max)
	}
	return []figureText{
		{"offered", fmt.Sprintf("%d in %.1f s, %s", r.Offered, r.Seconds, r.Arrivals)},
		{"admitted", fmt.Sprint(r.Admitted)},
		{"denied", fmt.Sprintf("%d, %d of them without a call", r.Denied, r.DeniedFree)},
		{"no decision", fmt.Sprint(r.Failed)},
		{"tokens above what is allowed", fmt.Sprint(r.Over)},
		{"latency p50, p95, p99, max", ms(r.Latency)},
		{"behind the arrivals", ms(r.Late)},
		{"writes for each admitted", fmt.Sprintf("%.2f", r.WritesPerGrant)},
		{"$ for a million admitted", fmt.Sprintf("%.3f, one unit a write, on demand in us-east-1", r.Dollars)},
	}
}
