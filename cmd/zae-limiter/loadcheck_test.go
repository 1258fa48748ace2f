package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// epoch is when the first request of a run is sent, by the clock.
const epoch = 1_700_000_000_000

// granted returns a request that was granted of a limit of e1 and of nothing else.
func granted(at int64, l inForce) sample {
	d := time.Duration(at) * time.Millisecond
	return sample{start: d, end: d + time.Millisecond, calls: true, sent: epoch + at, answered: epoch + at + 1,
		limits: []inForce{l}}
}

// The whole run is within what the limit allows: 788 of 400 + 600. One instant of it
// is not.
func TestTooMuchInOneWindowIsFound(t *testing.T) {
	plan := loadPlan{Prefix: "e", Entities: 1, Costs: limiter.Costs{"rpm": 1}, Duration: 10 * time.Minute}
	rpm := inForce{"e1", "rpm", 400, 60, 60_000}
	var samples []sample
	for range 786 {
		samples = append(samples, granted(500_000, rpm))
	}
	samples = append(samples, granted(600_000, rpm), granted(0, rpm)) // they are sent in any order
	r, err := summarize(plan, outcome{samples: samples})
	if err != nil || r.TokensOver != 386 {
		t.Errorf("%d tokens over, want 386: %v", r.TokensOver, err)
	}
	want := []allowance{{"e1", "rpm", 788, 500_000, 500_001, 786, 400, 386}}
	if !slices.Equal(r.Entities, want) {
		t.Errorf("%+v, want %+v", r.Entities, want)
	}
}

// A limit that is raised while requests are made allows more from then on.
func TestChangesAreAllowedFor(t *testing.T) {
	plan := loadPlan{Prefix: "e", Entities: 1, Costs: limiter.Costs{"rpm": 10}, Duration: 10 * time.Second}
	low, high := inForce{"e1", "rpm", 10, 1, 60_000}, inForce{"e1", "rpm", 20, 60_000, 60_000}
	samples := []sample{granted(0, low), granted(1000, high), granted(1000, high)}
	if r, err := summarize(plan, outcome{samples: samples}); err != nil || r.TokensOver != 0 {
		t.Errorf("raised: %d over, %v", r.TokensOver, err)
	}
	samples = []sample{granted(0, high), granted(0, high), granted(1000, low), granted(2000, low),
		granted(2000, low)}
	if r, err := summarize(plan, outcome{samples: samples}); err != nil || r.TokensOver != 10 {
		t.Errorf("lowered: %d over, want 10, %v", r.TokensOver, err)
	}
}

// What was not granted may have taken tokens and given them back: what a parent denied, until it
// was answered, and what was not answered, at any time.
func TestUngrantedRequestsMayHaveTakenTokens(t *testing.T) {
	low, parent := inForce{"e1", "rpm", 10, 1, 60_000}, inForce{"org", "rpm", 100, 1, 60_000}
	own := func(at int64) sample { return granted(at, low) }
	child := func(at int64) sample {
		s := own(at)
		s.limits = append(s.limits, parent)
		return s
	}
	not := func(err error, sent, answered int64) sample {
		return sample{err: err, calls: true, sent: epoch + sent, answered: epoch + answered}
	}
	denied, lost := fmt.Errorf("org: %w", limiter.ErrLimited), errors.New("lost")
	without := not(denied, 990, 1010)
	without.calls = false
	other := not(denied, 990, 1010)
	other.entity = 1
	fast := func(at int64) sample {
		s := granted(at, inForce{"e1", "rpm", 10, 60_000, 60_000})
		s.limits = append(s.limits, parent)
		return s
	}
	elsewhere := granted(20, inForce{"e2", "rpm", 10, 1, 60_000})
	elsewhere.entity = 1
	for _, c := range []struct {
		about   string
		samples []sample
		over    int64
	}{
		{"denied by a parent", []sample{child(1000), not(denied, 990, 1010), child(1000)}, 0},
		{"and given back to a full bucket", []sample{not(denied, 500, 510), child(1000), child(1000)}, 0},
		{"denied without a call", []sample{child(1000), without, child(1000)}, 10},
		{"another entity", []sample{child(1000), other, child(1000)}, 10},
		{"denied by a parent that it has no more", []sample{child(1000), not(denied, 990, 1010), own(1000)}, 0},
		{"no parent", []sample{own(1000), not(denied, 990, 1010), own(1000)}, 10},
		{"denied later", []sample{child(1000), child(1000), not(denied, 1020, 1030)}, 10},
		{"not answered", []sample{own(1000), without, not(lost, 990, 1010), own(1000)}, 0},
		{"not answered long ago", []sample{not(lost, 0, 10), fast(500), fast(1000), fast(1000), elsewhere}, 0},
		{"denied by a parent long ago", []sample{not(denied, 0, 10), fast(500), fast(1000), fast(1000)}, 9},
		{"not answered, and asked later", []sample{own(1000), own(1000), not(lost, 1020, 1030)}, 10},
	} {
		plan := loadPlan{Prefix: "e", Entities: 2, Costs: limiter.Costs{"rpm": 10}, Duration: 10 * time.Second}
		if r, err := summarize(plan, outcome{samples: c.samples}); err != nil || r.TokensOver != c.over {
			t.Errorf("%s: %d over, want %d, %v", c.about, r.TokensOver, c.over, err)
		}
	}
}

// Only what was paid for counts, and of it what comes back and what may deny.
func TestOnlyPaidCostsAreJudged(t *testing.T) {
	status := func(name string, capacity, refill int64) limiter.Status {
		return limiter.Status{Entity: "e1", Limit: name, Capacity: capacity, Refill: refill, Period: time.Minute}
	}
	soft := status("soft", 5, 1)
	soft.Soft = true
	got := chargedTo([]limiter.Status{status("rpm", 600, 1), status("free", 5, 1), status("absent", 5, 1),
		status("quota", 5, 0), soft, status("tpm", 700, 2)},
		limiter.Costs{"rpm": 1, "tpm": 2, "free": 0, "quota": 1, "soft": 1})
	want := []inForce{{"e1", "rpm", 600, 1, 60_000}, {"e1", "tpm", 700, 2, 60_000}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What is allowed in a window are whole tokens, and a window that is no worse than none has nothing.
func TestAllowances(t *testing.T) {
	plan := loadPlan{Prefix: "e", Entities: 1, Costs: limiter.Costs{"rpm": 1}, Duration: 10 * time.Second}
	long := granted(0, inForce{"e1", "rpm", 5, 60, 60_000})
	long.answered += 60_000
	for _, c := range []struct {
		about   string
		samples []sample
		want    allowance
	}{
		{"one token", []sample{granted(0, inForce{"e1", "rpm", 2_000_000, 1, 60_000})},
			allowance{"e1", "rpm", 1, 0, 1, 1, 2_000_000, 0}},
		{"a request that takes longer than a token to come back", []sample{long}, allowance{"e1", "rpm", 1, 0, 0, 0, 5, 0}},
	} {
		r, err := summarize(plan, outcome{samples: c.samples})
		if err != nil || !slices.Equal(r.Entities, []allowance{c.want}) {
			t.Errorf("%s: %+v, want %+v, %v", c.about, r.Entities, c.want, err)
		}
	}
}

// What cannot be checked is not said to be right.
func TestUncheckableLoadsFail(t *testing.T) {
	plan := loadPlan{Resource: "gpt-4", Entities: 1, Costs: limiter.Costs{"rpm": 1}, Duration: time.Second}
	_, err := summarize(plan, outcome{samples: []sample{granted(0, inForce{"e1", "rpm", 5, 1, 0})}})
	if err == nil || !strings.Contains(err.Error(), "rpm of e1 on gpt-4 cannot be checked") {
		t.Errorf("of a period of zero: %v", err)
	}
}
