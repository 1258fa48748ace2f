package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// near reports whether two points are the same but for rounding.
func near(a, b point) bool { return a.at == b.at && math.Abs(a.value-b.value) < 1e-9 }

// The course of a limit of 10 and one a second: two grants of two tokens, then the limit is raised.
func TestCourseOfALimit(t *testing.T) {
	plan := loadPlan{Prefix: "e", Entities: 1, Costs: limiter.Costs{"rpm": 2}, Duration: 10 * time.Second}
	low, high := inForce{"e1", "rpm", 10, 60, 60_000}, inForce{"e1", "rpm", 50, 120, 60_000}
	samples := []sample{granted(0, low), granted(999, low), granted(1999, high), granted(2999, high)}
	r, err := summarize(plan, outcome{samples: samples, apart: 500 * time.Millisecond})
	check.Must(t, err)
	admitted := []point{{0, 0}, {.001, 0}, {.001, 2}, {1, 2}, {1, 4}, {2, 4}, {2, 6}, {3, 6}, {3, 8}}
	// From the answer of the second grant's request on, the raised limit may be in force.
	allowed := []point{{0, 10.5}, {.001, 10.501}, {.999, 11.499}, {.999, 51.499}, {1, 51.501}, {2, 53.501}, {3, 55.501}}
	if c := r.nearest; c.entity != "e1" || c.limit != "rpm" || !slices.Equal(c.admitted, admitted) ||
		!slices.EqualFunc(c.allowed, allowed, near) {
		t.Errorf("%+v, want %v and %v", c, admitted, allowed)
	}
}
