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

// Behind the edge of a quota by the calendar a state is stored for the instant before it: the
// period goes on for a second. Nothing else that ends sets it back.
func TestStoredBeforeAnEdge(t *testing.T) {
	const edge = 1_700_006_400_000
	hours := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h*/2@UTC"}
	first := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "+3600"}
	fly := Limit{Name: "q", Capacity: 10 * Milli, Period: 30_000, AtOnce: true}
	rate := Limit{Name: "q", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 1000}
	for _, c := range []struct {
		name  string
		limit Limit
		rf    int64
		want  int64
	}{
		{"before it", hours, edge - 1, edge - 1},
		{"at it", hours, edge, edge - 1},
		{"in the second behind it", hours, edge + 999, edge - 1},
		{"a quota from the first use", first, edge + 500, edge + 500},
		{"slots", fly, edge + 500, edge + 500},
		{"a rate", rate, edge + 500, edge + 500},
	} {
		s := New([]Limit{c.limit}, 0, 1, edge-10)
		i := s.Index("q")
		if s.RF = c.rf; c.limit.AtOnce || c.limit.FirstUse() > 0 {
			s.Slots[i].End = edge
		}
		if got := s.Stored(); got.RF != c.want {
			t.Errorf("%s: stored for %d, want %d", c.name, got.RF-edge, c.want-edge)
		}
	}
}
