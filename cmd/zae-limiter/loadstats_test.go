package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Every request is counted once, and each limit is judged by itself.
func TestSummary(t *testing.T) {
	plan := loadPlan{Prefix: "e", Entities: 2, Costs: limiter.Costs{"rpm": 2}, Duration: 10 * time.Second}
	one, two := inForce{"e1", "rpm", 3, 60, 60_000}, inForce{"e2", "rpm", 3, 60, 60_000}
	samples := []sample{granted(0, one), granted(1500, one), granted(0, two), granted(4000, two), granted(5000, two),
		granted(6000, two)}
	for i := range samples[2:] {
		samples[2+i].entity = 1
	}
	samples[4].err, samples[4].calls, samples[4].limits = limiter.ErrLimited, false, nil
	samples[5].err, samples[5].limits = errors.New("lost"), nil
	r, err := summarize(plan, outcome{samples: samples, writes: 5, took: 7 * time.Second})
	if err != nil || r.Admitted != 4 || r.Denied != 1 || r.DeniedWithoutACall != 1 ||
		r.Failed != 1 || r.WritesPerGrant != 1.25 ||
		r.TokensOver != 0 || r.firstError == nil || len(r.PerSecond) != 7 {
		t.Errorf("%v, %+v", err, r)
	}
	want := []allowance{{"e1", "rpm", 4, 0, 1501, 4, 4, 0}, {"e2", "rpm", 4, 0, 1, 2, 3, 0}}
	if !slices.Equal(r.Entities, want) {
		t.Errorf("%+v, want %+v", r.Entities, want)
	}
	samples[1] = granted(100, one) // 4 of 3, and a tenth of a second's refill
	if r, err = summarize(plan, outcome{samples: samples}); err != nil || r.TokensOver != 1 {
		t.Errorf("%d tokens over, want 1: %v", r.TokensOver, err)
	}
	r, err = summarize(plan, outcome{samples: samples, apart: 900 * time.Millisecond})
	if err != nil || r.TokensOver != 0 {
		t.Errorf("%d tokens over, want none: another clock may have refilled one: %v", r.TokensOver, err)
	}
}

// aRun is a run of four seconds: grants that take longer and longer and overstep a limit, denials
// with and without a call, and in the third second requests without a decision. The last is late.
func aRun() (loadPlan, outcome) {
	plan := loadPlan{
		Table: "quotas", Resource: "gpt-4", Prefix: "e", Entities: 2, Costs: limiter.Costs{"rpm": 2}, Rate: 5,
		Arrivals: bursts, Duration: 4 * time.Second, Processes: 3, Seed: 7,
	}
	one, two := inForce{"e1", "rpm", 200, 60, 60_000}, inForce{"e2", "rpm", 10, 60, 60_000}
	var samples []sample
	took := func(s sample, ms int) {
		s.end = s.start + time.Duration(ms)*time.Millisecond
		s.answered, s.late = s.sent+int64(ms), time.Duration(len(samples))*100*time.Microsecond
		samples = append(samples, s)
	}
	not := func(s sample, err error, calls bool) sample {
		s.err, s.calls, s.limits = err, calls, nil
		return s
	}
	for i := range 40 {
		s := granted(int64(10*i), one)
		if i%2 == 1 {
			s = granted(int64(10*i), two)
			s.entity = 1
		}
		took(s, 90-2*i)
	}
	denied := fmt.Errorf("denied: %w", limiter.ErrLimited)
	took(not(granted(1000, one), denied, true), 5)
	for range 3 {
		took(not(granted(1500, one), denied, false), 0)
	}
	took(not(granted(2000, one), errors.New("first"), true), 900)
	took(not(granted(2100, one), errors.New("second"), false), 1)
	took(granted(3000, one), 8)
	took(granted(5500, one), 11)
	return plan, outcome{samples, 31, 5600 * time.Millisecond, 1500 * time.Microsecond, true}
}

// What programs read of a run.
func TestSummaryAsJSON(t *testing.T) {
	r, err := summarize(aRun())
	if err != nil || r.firstError == nil || r.firstError.Error() != "first" {
		t.Fatalf("%v, the first error is %v", err, r.firstError)
	}
	var out strings.Builder
	check.Must(t, encode(&out, r, "  "))
	check.Golden(t, "testdata/load.json", out.String(), *update)
}

// A run in which nothing was admitted, or nothing asked, has figures too.
func TestSummaryOfNothing(t *testing.T) {
	plan := loadPlan{Entities: 1, Costs: limiter.Costs{"rpm": 1}, Duration: 10 * time.Second}
	for about, samples := range map[string][]sample{
		"nothing asked": nil, "nothing admitted": {{err: limiter.ErrLimited}},
	} {
		r, err := summarize(plan, outcome{samples: samples, writes: 1})
		if err != nil || r.WritesPerGrant != 0 || r.DollarsPerMillionAdmitted != 0 || len(r.PerSecond) != 1 {
			t.Errorf("%s: %+v, %v", about, r, err)
		}
	}
	plan.Duration = 3 * time.Second
	one := granted(0, inForce{"e1", "rpm", 5, 1, 60_000})
	r, err := summarize(plan, outcome{samples: []sample{one}, writes: 3})
	if err != nil || r.WritesPerGrant != 3 || len(r.PerSecond) != 1 {
		t.Errorf("one admitted: %+v, %v", r, err)
	}
}
