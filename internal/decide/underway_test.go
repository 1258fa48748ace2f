package decide

import (
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What is under way of each limit is the sum of what was added and not taken out again, whatever else
// comes and goes.
func TestUnderWayIsASum(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 6))
	limits := []bucket.Limit{each("a", 1), each("b", 1), each("c", 1)}
	var u underWay
	var added [][]table.Cost
	totals := make([]int64, len(limits))
	for step := range 2000 {
		if len(added) == 0 || r.IntN(2) == 0 && step < 1900 {
			costs := table.Costs(limits, r.Int64N(3), r.Int64N(5)-2, r.Int64N(3)*bucket.Milli)
			u.add(costs)
			added = append(added, costs)
			for i, c := range costs {
				totals[i] += c.Milli
			}
		} else {
			last := len(added) - 1
			i := r.IntN(last + 1)
			u.remove(added[i])
			for j, c := range added[i] {
				totals[j] -= c.Milli
			}
			added[i], added = added[last], added[:last]
		}
		for i, l := range limits {
			if totals[i] >= 0 && u.of(l.Name) != totals[i] {
				t.Fatalf("step %d: %d of %s are under way, want %d", step, u.of(l.Name), l.Name, totals[i])
			}
		}
		if len(added) == 0 && len(u) > 0 {
			t.Fatalf("step %d: %v is under way when all was taken out", step, u)
		}
	}
}
