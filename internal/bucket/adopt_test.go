package bucket

import "testing"

// Adopt reports whether anything differs, and leaves its receiver alone: code that decides by it
// still sees the old limit.
func TestAdoptReportsAChange(t *testing.T) {
	rate := Limit{Name: "a", Capacity: 10 * Milli, Amount: Milli, Period: 1000}
	quota := Limit{Name: "a", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	slots := Limit{Name: "a", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	bare := func(l Limit) Limit {
		l.Floors, l.Ahead = "batch=40", 2000
		return l
	}
	for _, was := range []Limit{rate, quota, slots} {
		for _, want := range []Limit{rate, quota, slots, bare(rate), bare(quota), bare(slots)} {
			s := New([]Limit{was}, 0, 1, 1000)
			got, changed := s.Adopt(want)
			if changed != (was != want.Bare()) {
				t.Errorf("from %v to %v: changed %v", was, want, changed)
			}
			if !got.Has(want) || !got.Matches([]Limit{want}) || got.Slots[0].Limit != want.Bare() {
				t.Errorf("from %v to %v: it has %v", was, want, got.Slots[0].Limit)
			}
			if s.Slots[0].Limit != was || changed && s.Matches([]Limit{want}) {
				t.Errorf("from %v to %v: the state itself was changed", was, want)
			}
		}
	}
}

// Of a rate that was lowered the level is cut to what fits, beside what is held; a raised one gets
// nothing. A remainder has room below the top only.
func TestAdoptedRates(t *testing.T) {
	rate := func(capacity, period int64) Limit {
		return Limit{Name: "a", Capacity: capacity, Amount: 10, Period: period}
	}
	for _, c := range []struct {
		name               string
		want               Limit
		tokens, held       int64 // before
		level, rest, still int64 // after
	}{
		{"raised", rate(200, 1000), 60, 0, 60, 500, 0},
		{"raised when full", rate(200, 1000), 100, 0, 100, 500, 0},
		{"lowered above the level", rate(80, 1000), 60, 0, 60, 500, 0},
		{"lowered to the level", rate(60, 1000), 60, 0, 60, 0, 0},
		{"lowered below the level", rate(40, 1000), 60, 0, 40, 0, 0},
		{"lowered beside what is held", rate(80, 1000), 60, 30, 50, 0, 30},
		{"lowered below what is held", rate(20, 1000), 60, 30, 0, 0, 20},
		{"a longer period", rate(100, 3000), 60, 0, 60, 1500, 0},
	} {
		s := New([]Limit{rate(100, 1000)}, 0, 1, 1000)
		s.Slots[0].Tokens, s.Slots[0].Rest, s.Slots[0].Held, s.HeldUntil = c.tokens, 500, c.held, 5000
		got, _ := s.Adopt(c.want)
		if sl := got.Slots[0]; sl.Tokens != c.level || sl.Rest != c.rest || sl.Held != c.still {
			t.Errorf("%s: %d+%d with %d held, want %d+%d with %d", c.name, sl.Tokens, sl.Rest, sl.Held,
				c.level, c.rest, c.still)
		}
	}
}

// A remainder is carried over to another period, rounded down and below it.
func TestRescaleRest(t *testing.T) {
	for _, c := range []struct{ rest, from, to, want int64 }{
		{7, 10, 10, 7}, {7, 10, 5, 3}, {7, 10, 100, 70}, {9, 10, 1, 0}, {7, 0, 5, 7},
		{12, 10, 10, 12}, {12, 10, 5, 4}, {Never, 1, 1 << 40, 0},
	} {
		if got := RescaleRest(c.rest, c.from, c.to); got != c.want {
			t.Errorf("%d of %d in %d: %d, want %d", c.rest, c.from, c.to, got, c.want)
		}
	}
}

// What was a quota or slots leaves nothing of that behind in a rate.
func TestAQuotaBecomesARate(t *testing.T) {
	s := New([]Limit{{Name: "a", Capacity: 10, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}}, 0, 1, 1000)
	s.Slots[0].Tokens, s.Slots[0].Extra = 7, 5
	got, _ := s.Adopt(Limit{Name: "a", Capacity: 10, Amount: 1, Period: 1000})
	if sl := got.Slots[0]; sl.Tokens != 7 || sl.End != 0 || sl.Extra != 0 {
		t.Errorf("%+v", sl)
	}
}

// The debt of a soft limit is forgiven when it becomes a hard one, and else stays.
func TestTheDebtOfAdoptedSoftLimits(t *testing.T) {
	soft := Limit{Name: "a", Capacity: 10 * Milli, Amount: 1, Period: 1000, Soft: true}
	hard := soft
	hard.Soft = false
	soft.Capacity += Milli
	for _, c := range []struct {
		to           Limit
		tokens, want int64
	}{{soft, -3 * Milli, -3 * Milli}, {hard, -3 * Milli, 0}, {hard, 2 * Milli, 2 * Milli}} {
		s, _ := one(Limit{Name: "a", Capacity: 10 * Milli, Amount: 1, Period: 1000, Soft: true}, 1000, c.tokens)
		if got, _ := s.Adopt(c.to); got.Slots[got.Index("a")].Tokens != c.want {
			t.Errorf("%d becomes %d of %v, want %d", c.tokens, got.Slots[got.Index("a")].Tokens, c.to, c.want)
		}
	}
}

// A limit that is brought stands where it belongs by its name.
func TestAdoptedLimitsAreInOrder(t *testing.T) {
	rate := func(name string) Limit { return Limit{Name: name, Capacity: 10 * Milli, Amount: Milli, Period: 1000} }
	s := New([]Limit{rate("b"), rate("z")}, 0, 1, 1000)
	for _, name := range []string{"c", "a"} {
		s, _ = s.Adopt(rate(name))
	}
	var names string
	for _, sl := range s.Slots {
		names += sl.Name + " "
	}
	if names != "a b c wcu z " {
		t.Errorf("in the order %s", names)
	}
}
