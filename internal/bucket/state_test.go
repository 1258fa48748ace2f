package bucket

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Limits and states format tokens by their kind, for messages and scripts.
func TestTextOfLimitsAndStates(t *testing.T) {
	for want, l := range map[string]Limit{
		"rpm 10/2.5 every 1000ms":              {Name: "rpm", Capacity: 10_000, Amount: 2500, Period: 1000},
		"rpm 10/2.5 every 1000ms soft":         {Name: "rpm", Capacity: 10_000, Amount: 2500, Period: 1000, Soft: true},
		"rpd 10 each m0h0@UTC":                 {Name: "rpd", Capacity: 10_000, Period: QuotaPeriod, Reset: "m0h0@UTC"},
		"fly 10 at once, epochs of 30000ms":    {Name: "fly", Capacity: 10_000, Period: 30_000, InFlight: true},
		"rpd 0.001 each m0h0@UTC soft":         {Name: "rpd", Capacity: 1, Reset: "m0h0@UTC", Soft: true},
		"fly 1 at once, epochs of 5000ms soft": {Name: "fly", Capacity: 1000, Period: 5000, InFlight: true, Soft: true},
	} {
		check.Equal(t, l.String(), want)
	}
	s := New([]Limit{{Name: "rpm", Capacity: 10_000, Amount: 2500, Period: 1000}}, 1, 2, 77)
	s.Slots[0].Tokens, s.Slots[0].Rest = -1500, 3
	check.Equal(t, s.String(), "shard 1/2 rf=77 rpm=-1.5/5+3/1000 wcu=1000/1000")
}

// A denial names the slot with the longest wait. Soft limits, and limits without a request, deny
// nothing. A cost of zero is denied only by debt.
func TestDecide(t *testing.T) {
	rate := func(name string, period int64) Limit {
		return Limit{Name: name, Capacity: 10, Amount: 1, Period: period}
	}
	soft := rate("c", 100)
	soft.Soft = true
	s := New([]Limit{rate("a", 10), rate("b", 20), soft}, 0, 1, 1000)
	for _, c := range []struct {
		name   string
		levels [3]int64
		needs  []int64
		now    int64
		want   Verdict
	}{
		{"all there", [3]int64{5, 5, 5}, []int64{5, 5, 5, 0}, 1000, Verdict{Granted: true, At: 1000, Slot: -1}},
		{"the second takes longer", [3]int64{0, 0, 0}, []int64{1, 1, 0, 0}, 1000, Verdict{At: 1020, Slot: 1}},
		{"the first takes longer", [3]int64{0, 4, 0}, []int64{9, 5, 0, 0}, 1000, Verdict{At: 1090, Slot: 0}},
		{"refilled until now", [3]int64{0, 5, 0}, []int64{3, 5, 0, 0}, 1030, Verdict{Granted: true, At: 1030, Slot: -1}},
		{"a millisecond early", [3]int64{0, 5, 0}, []int64{3, 5, 0, 0}, 1029, Verdict{At: 1030, Slot: 0}},
		{"more than fits", [3]int64{9, 0, 0}, []int64{11, 1, 0, 0}, 1000, Verdict{At: Never, Slot: 0}},
		{"soft", [3]int64{9, 9, -50}, []int64{1, 1, 9, 0}, 1000, Verdict{Granted: true, At: 1000, Slot: -1}},
		{"not asked for", [3]int64{-9, 9, 0}, []int64{-1, 1, 0, 0}, 1000, Verdict{Granted: true, At: 1000, Slot: -1}},
		{"no cost, no debt", [3]int64{0, 9, 0}, []int64{0, 1, 0, 0}, 1000, Verdict{Granted: true, At: 1000, Slot: -1}},
		{"no cost, in debt", [3]int64{-1, 9, 0}, []int64{0, 1, 0, 0}, 1000, Verdict{At: 1010, Slot: 0}},
	} {
		for i, level := range c.levels {
			s.Slots[i].Tokens = level
		}
		check.Equal(t, s.Decide(c.needs, c.now), c.want, c.name)
	}
}

// A state is full when its slowest limit is, without the write meter. Top-ups expire with their
// period. If a limit never refills, the state is never full.
func TestFullAt(t *testing.T) {
	const edge = 1_700_006_400_000 // of every two hours
	rate := func(name string, amount int64) Limit {
		return Limit{Name: name, Capacity: 10, Amount: amount, Period: 10}
	}
	quota := Limit{Name: "q", Capacity: 10, Period: QuotaPeriod, Reset: "m0h*/2@UTC"}
	for _, c := range []struct {
		name   string
		limits []Limit
		levels []int64
		extra  int64
		want   int64 // after edge - 5000
	}{
		{"full", []Limit{rate("a", 1), rate("b", 1)}, []int64{10, 10}, 0, 0},
		{"the slower one", []Limit{rate("a", 1), rate("b", 5)}, []int64{7, 0}, 0, 30},
		{"the other one", []Limit{rate("a", 1), rate("b", 5)}, []int64{9, 0}, 0, 20},
		{"no refill", []Limit{rate("a", 0), rate("b", 5)}, []int64{9, 0}, 0, Never},
		{"a quota", []Limit{quota}, []int64{9}, 0, 5000 + EdgeMargin},
		{"topped up", []Limit{quota}, []int64{11}, 1, 5000 + EdgeMargin},
	} {
		s := New(c.limits, 0, 1, edge-5000)
		for i, level := range c.levels {
			s.Slots[i].Tokens, s.Slots[i].Extra = level, c.extra
		}
		s.Slots[s.Index(WCU)].Tokens = 0
		want := c.want
		if want != Never {
			want += edge - 5000
		}
		check.Equal(t, s.FullAt(edge-5000), want, c.name)
	}
}

// The write meter allows the writes that one partition takes in a second, and is not a limit of the
// user.
func TestTheWriteMeter(t *testing.T) {
	check.Equal(t, WCULimit(), Limit{Name: WCU, Capacity: 1000 * Milli, Amount: 1000 * Milli, Period: 1000})
	s := New([]Limit{daily}, 0, 1, anEdge)
	if got := s.Limits(); len(got) != 1 || got[0] != daily {
		t.Errorf("the limits are %v", got)
	}
	other := daily
	other.Capacity++
	if !s.SameLimits(New([]Limit{daily}, 1, 2, 5)) || s.SameLimits(New([]Limit{other}, 0, 1, anEdge)) {
		t.Error("limits compare unequal")
	}
}

// A quota without a stored end gets the end of the current period.
func TestStatesGetTheEndOfTheirPeriod(t *testing.T) {
	s, i := one(daily, anEdge+60_000, 5*Milli)
	s.Slots[i].End = 0
	if at := s.At(anEdge + 70_000).Slots[i]; at.End != anEdge+86_400_000 || at.Tokens != 5*Milli {
		t.Errorf("%+v", at)
	}
}
