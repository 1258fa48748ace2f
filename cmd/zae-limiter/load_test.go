package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestArrivals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for _, kind := range arrivalKinds {
		at := arrivals(kind, 100, 60*time.Second, random)
		if n := float64(len(at)); math.Abs(n-6000) > 300 || !slices.IsSorted(at) || at[len(at)-1] >= time.Minute {
			t.Errorf("%s: %d arrivals within a minute, the last at %v", kind, len(at), at[len(at)-1])
		}
	}
	if at := arrivals(bursts, 3, 2*time.Second, random); !slices.Equal(at, []time.Duration{0, 0, 0, 1e9, 1e9, 1e9}) {
		t.Errorf("bursts: %v", at)
	}
	counts := make([]int, 3)
	skewed := newChooser(3, 1)
	for range 11_000 {
		counts[skewed.pick(random)]++
	}
	for k, want := range []int{6000, 3000, 2000} {
		if got := counts[k]; math.Abs(float64(got-want)) > 300 {
			t.Errorf("number %d was chosen %d times, want about %d", k+1, got, want)
		}
	}
}

// What is above the allowance is found, for each entity and limit by itself.
func TestSummaryFindsWhatIsOver(t *testing.T) {
	plan := loadPlan{Prefix: "e", Entities: 2, Costs: limiter.Costs{"rpm": 2}, Duration: 10 * time.Second}
	limits := func(entity string) []limiter.Status {
		return []limiter.Status{{Entity: entity, Limit: "rpm", Capacity: 3, Refill: 60, Period: time.Minute}}
	}
	at := func(entity int, second float64, err error) sample {
		d := time.Duration(second * float64(time.Second))
		return sample{entity: entity, start: d, end: d + 500*time.Millisecond, calls: err == nil, err: err}
	}
	samples := []sample{at(0, 0, nil), at(0, 0.5, nil), at(1, 0, nil), at(1, 4, nil), at(1, 5, limiter.ErrLimited),
		at(1, 6, errors.New("lost"))}
	samples[0].limits, samples[2].limits = limits("e1"), limits("e2")
	r := summarize(plan, outcome{samples, 5, 7 * time.Second})
	want := []allowance{{"e1", "rpm", 4, 4}, {"e2", "rpm", 4, 7}}
	if r.Admitted != 4 || r.Denied != 1 || r.DeniedFree != 1 || r.Failed != 1 || r.WritesPerGrant != 1.25 ||
		r.Over != 0 ||
		!slices.Equal(r.Allowances, want) || r.firstError == nil || len(r.PerSecond) != 7 {
		t.Errorf("%+v", r)
	}
	samples = append(samples, at(0, 0.4, nil)) // 6 of 3 and one second's refill
	r = summarize(plan, outcome{samples, 5, 7 * time.Second})
	if r.Over != 2 {
		t.Errorf("%d tokens over, want 2", r.Over)
	}
	page, err := r.html()
	if err != nil || !strings.Contains(string(page), "2 tokens more were admitted") {
		t.Errorf("%v\n%s", err, page)
	}
}
