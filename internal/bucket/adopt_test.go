package bucket

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Adopt reports whether anything changed. It does not modify its receiver, because code that uses
// the result still needs the old limit.
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
			check.Equal(t, changed, was != want.Bare(), "from %v to %v", was, want)
			if !got.Has(want) || !got.Matches([]Limit{want}) || got.Slots[0].Limit != want.Bare() {
				t.Errorf("from %v to %v: it has %v", was, want, got.Slots[0].Limit)
			}
			if s.Slots[0].Limit != was || changed && s.Matches([]Limit{want}) {
				t.Errorf("from %v to %v: the receiver was modified", was, want)
			}
		}
	}
}

// If a rate is lowered, its level is cut to the new capacity minus the held tokens. If it is
// raised, its level stays. A remainder is kept only below the capacity. The debt of a soft limit is
// forgiven when the limit becomes hard, and otherwise stays. A former quota leaves nothing behind.
func TestAdoptedRates(t *testing.T) {
	rate := func(capacity, period int64) Limit {
		return Limit{Name: "a", Capacity: capacity, Amount: 10, Period: period}
	}
	soft, larger := rate(100, 1000), rate(110, 1000)
	soft.Soft, larger.Soft = true, true
	quota := Limit{Name: "a", Capacity: 100, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	for _, c := range []struct {
		name               string
		was, want          Limit
		tokens, held       int64 // before
		level, rest, still int64 // after
	}{
		{"raised", rate(100, 1000), rate(200, 1000), 60, 0, 60, 500, 0},
		{"raised when full", rate(100, 1000), rate(200, 1000), 100, 0, 100, 500, 0},
		{"lowered above the level", rate(100, 1000), rate(80, 1000), 60, 0, 60, 500, 0},
		{"lowered to the level", rate(100, 1000), rate(60, 1000), 60, 0, 60, 0, 0},
		{"lowered below the level", rate(100, 1000), rate(40, 1000), 60, 0, 40, 0, 0},
		{"lowered, with held tokens", rate(100, 1000), rate(80, 1000), 60, 30, 50, 0, 30},
		{"lowered below the held tokens", rate(100, 1000), rate(20, 1000), 60, 30, 0, 0, 20},
		{"a longer period", rate(100, 1000), rate(100, 3000), 60, 0, 60, 1500, 0},
		{"in debt", rate(100, 1000), rate(200, 1000), -3, 0, -3, 500, 0},
		{"soft in debt", soft, larger, -3, 0, -3, 500, 0},
		{"soft in debt, and hard", soft, rate(100, 1000), -3, 0, 0, 500, 0},
		{"soft, and hard", soft, rate(100, 1000), 2, 0, 2, 500, 0},
		{"a quota", quota, rate(100, 1000), 7, 0, 7, 0, 0},
	} {
		s := New([]Limit{c.was}, 0, 1, 1000)
		sl := &s.Slots[0]
		sl.Tokens, sl.Held, s.HeldUntil = c.tokens, c.held, 5000
		if sl.Rest = 500; c.was.Renews() {
			sl.Rest, sl.Extra = 0, 5
		}
		got, _ := s.Adopt(c.want)
		want := Slot{Limit: c.want, Tokens: c.level, Rest: c.rest, Held: c.still}
		check.Equal(t, got.Slots[0], want, c.name)
	}
}

// A remainder is converted to the new period, rounded down, and stays below it.
func TestRescaleRest(t *testing.T) {
	for _, c := range []struct{ rest, from, to, want int64 }{
		{7, 10, 10, 7}, {7, 10, 5, 3}, {7, 10, 100, 70}, {9, 10, 1, 0}, {7, 0, 5, 7},
		{12, 10, 10, 12}, {12, 10, 5, 4}, {Never, 1, 1 << 40, 0},
	} {
		check.Equal(t, RescaleRest(c.rest, c.from, c.to), c.want, "%d of %d in %d", c.rest, c.from, c.to)
	}
}

// An added limit is inserted in order of name.
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
	check.Equal(t, names, "a b c wcu z ", "the order")
}
