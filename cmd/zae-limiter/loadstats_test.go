package main

import (
	"errors"
	"slices"
	"testing"
	"time"

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
