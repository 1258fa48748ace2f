package bucket

import "testing"

// What is given fills a rate up, and no more: a full one gets nothing, and one whose capacity
// was lowered below its level keeps it.
func TestGiftsFillARateUp(t *testing.T) {
	rate := Limit{Name: "rpm", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 60_000}
	for _, c := range []struct {
		level int64
		gift  Gift
		want  int64
	}{
		{10_000, Gift{Milli: 5000}, 10_000},
		{10_000, Gift{Whole: true}, 10_000},
		{12_000, Gift{Milli: 5000}, 12_000},
		{12_000, Gift{Whole: true}, 12_000},
		{8000, Gift{Milli: 500}, 8500},
		{8000, Gift{Milli: 5000}, 10_000},
		{-3000, Gift{Whole: true}, 10_000},
	} {
		s := New([]Limit{rate}, 0, 1, 0)
		i := s.Index("rpm")
		s.Slots[i].Tokens = c.level
		if got := s.Give(map[string]Gift{"rpm": c.gift}).Slots[i].Tokens; got != c.want {
			t.Errorf("%+v to a level of %d: %d, want %d", c.gift, c.level, got, c.want)
		}
	}
}

// Quotas may be topped up above their capacity, until their period ends. One from the first use
// begins with it; making it whole begins another period, in which what was taken before does
// not count.
func TestGiftsToQuotas(t *testing.T) {
	first := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "+3600"}
	s := New([]Limit{first}, 0, 1, 1000)
	i := s.Index("q")
	got := s.Give(map[string]Gift{"q": {Milli: 5000}}).Slots[i]
	if got.Tokens != 15_000 || got.Extra != 5000 || got.End != 3_601_000 {
		t.Errorf("topped up before its first use: %+v", got)
	}
	s.Slots[i].Tokens, s.Slots[i].End = 4000, 3_601_000
	if got = s.Give(map[string]Gift{"q": {Whole: true}}).Slots[i]; got.Tokens != 10_000 || got.End != 3_601_001 {
		t.Errorf("made whole: %+v, want a period that ends at another instant", got)
	}
	monthly := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	s = New([]Limit{monthly}, 0, 1, 1000)
	s.Slots[i].Tokens = 4000
	if got = s.Give(map[string]Gift{"q": {Whole: true}}).Slots[i]; got.Tokens != 10_000 || got.Resets != 1 {
		t.Errorf("made whole: %+v", got)
	}
}
