package bucket

import "testing"

// A billion settlements of a third of a cent, 3,333 millionths of a dollar, add up to
// $3,333,000 exactly: in millitokens they are far from what 64 bits hold.
func TestABillionSettlementsAddUp(t *testing.T) {
	const dollar, third, n = 1_000_000 * Milli, 3_333 * Milli, 1_000_000
	budget := Limit{Name: "budget", Capacity: 4_000_000 * dollar, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	s := New([]Limit{budget}, 0, 1, 1_700_000_000_000)
	i := s.Index("budget")
	costs := make([]int64, len(s.Slots))
	for _, at := range []int64{1, 999} { // a million one by one, and the rest in steps of 999
		costs[i] = at * third
		for range n {
			s = s.Take(costs)
		}
	}
	if left, used := s.Slots[i].Tokens, s.Slots[i].Used; left != 667_000*dollar || used != 3_333_000*dollar {
		t.Errorf("%d left and %d spent", left, used)
	}
}
