package fleet

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Given-back tokens may be taken again at once, also by a write sent before or after, from a level
// above the capacity of 10. Other tokens may not.
func TestWitnessCountsGivenBackTokens(t *testing.T) {
	type took struct{ milli, sent, now int64 }
	for name, c := range map[string]struct {
		all  []took
		want float64
	}{
		"by a write sent before": {[]took{{10_000, 1, 2}, {-3000, 10, 11}, {3000, 8, 12}}, 0},
		"from a full bucket":     {[]took{{-3000, 10, 11}, {13_000, 20, 21}}, 0},
		"more than came back":    {[]took{{10_000, 1, 2}, {-3000, 10, 11}, {4000, 8, 12}}, 1},
		"before it came back":    {[]took{{10_000, 1, 2}, {3000, 8, 9}, {-3000, 10, 11}}, 3},
		"nothing":                {[]took{{10_000, 1, 2}, {3000, 8, 9}}, 3},
	} {
		// A token in a million seconds.
		l := newWitness([]bucket.Rate{{Capacity: 10_000, Amount: 1000, Period: 1_000_000_000}}, 0)
		for _, x := range c.all {
			l.took(0, x.milli, x.sent, x.now)
		}
		if got := l.excess(); got > c.want || got < c.want-.001 {
			t.Errorf("%s: excess of %f, want %f", name, got, c.want)
		}
	}
}
