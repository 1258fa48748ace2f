package item

import (
	"math"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Numbers that share their memory stay what they are, however many more are made, and so do
// the conditions on them. So it is without Numbers.
func TestNumbersThatShareMemory(t *testing.T) {
	want := []int64{0, 7, -1, math.MaxInt64, math.MinInt64}
	for len(want) < 100 {
		want = append(want, int64(len(want))*1_000_000_007)
	}
	for _, numbers := range []*Numbers{{}, nil} {
		var made []Value
		var conds []Cond
		for _, n := range want {
			made = append(made, numbers.N(n))
			conds = append(conds, numbers.Compare("n", Ge, numbers.N(n)))
		}
		for i, n := range want {
			if got := made[i].(*types.AttributeValueMemberN).Value; got != N(n).(*types.AttributeValueMemberN).Value {
				t.Errorf("number %d is %s, want %d", i, got, n)
			}
			if !conds[i].Holds(Item{"n": N(n)}) || n > math.MinInt64 && conds[i].Holds(Item{"n": N(n - 1)}) {
				t.Errorf("condition %d does not compare with %d", i, n)
			}
		}
	}
}
