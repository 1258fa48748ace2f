package desk

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// One write settles differences of the same period of each limit, beginning with the first. The
// others are left for the next one, and nothing is lost.
func TestDifferencesOfOnePeriodGoTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	type period struct {
		limit             string
		end, resets, born int64
	}
	periodOf := func(c table.Cost) period { return period{c.Limit.Name, c.End, c.Resets, c.Born} }
	for run := range 2000 {
		var left []*decide.Difference
		want, got := map[period]int64{}, map[period]int64{}
		for range 1 + rng.IntN(6) {
			d := &decide.Difference{}
			for _, limit := range []string{"a", "b"}[rng.IntN(2):] {
				c := table.Cost{Limit: bucket.Limit{Name: limit}, Milli: 1 + rng.Int64N(9),
					End: rng.Int64N(2), Resets: rng.Int64N(2), Born: rng.Int64N(2)}
				d.Costs = append(d.Costs, c)
				want[periodOf(c)] += c.Milli
			}
			left = append(left, d)
		}
		for len(left) > 0 {
			first := left[0]
			var batch []*decide.Difference
			var sum []table.Cost
			if batch, sum, left = together(left); len(batch) == 0 || batch[0] != first {
				t.Fatalf("run %d: the first of all is not settled", run)
			}
			of := map[string]period{}
			for _, d := range batch {
				for _, c := range d.Costs {
					if p, ok := of[c.Limit.Name]; ok && p != periodOf(c) {
						t.Fatalf("run %d: one write settles %+v and %+v", run, p, periodOf(c))
					}
					of[c.Limit.Name] = periodOf(c)
				}
			}
			for _, c := range sum {
				got[periodOf(c)] += c.Milli
			}
		}
		check.MustEqual(t, maps.Equal(got, want), true, "run %d: %v are settled, want %v", run, got, want)
	}
}
