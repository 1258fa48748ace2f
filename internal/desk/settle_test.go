package desk

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A settlement names all limits of a bucket, so none loses its refill; and only the settled ones if
// one write cannot name as many. It gives back to the period of the costs.
func TestSettlementsNameAllLimitsOfABucket(t *testing.T) {
	for limits, want := range map[int]int{1: 1, bucket.MaxLimits: bucket.MaxLimits, bucket.MaxLimits + 1: 1} {
		var all []bucket.Limit
		for i := range limits {
			all = append(all, bucket.Limit{Name: fmt.Sprintf("l%02d", i), Capacity: 10_000, Amount: 10_000, Period: 60_000})
		}
		state := bucket.New(all, 0, 1, 1_000_000)
		given := table.Cost{Limit: all[limits-1], Milli: -5, End: 77, Resets: 3}
		got := adjustable(state, []table.Cost{given})
		if len(state.Slots) != limits+1 || len(got) != want || got[want-1] != given {
			t.Errorf("%d limits: %d are named, want %d; the last is %+v", limits, len(got), want, got[want-1])
		}
		for _, c := range got[:want-1] {
			if c.Milli != 0 || c.End != 0 || c.Resets != 0 {
				t.Errorf("%d limits: %+v, of which nothing is settled", limits, c)
			}
		}
	}
}
