package bucket

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

const anEdge = 1_700_006_400_000 // midnight, UTC

var daily = Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0@UTC"}

// alone returns a full state with one limit, and its index.
func alone(l Limit, at int64) (State, int) {
	s := New([]Limit{l}, 0, 1, at)
	return s, s.Index(l.Name)
}

// one is alone, with the limit's level set.
func one(l Limit, at, tokens int64) (State, int) {
	s, i := alone(l, at)
	s.Slots[i].Tokens = tokens
	return s, i
}

// Waiting begins no period of a first-use quota.
func TestWaitingBeginsNoPeriod(t *testing.T) {
	l := daily
	l.Reset = "+60"
	s, i := one(l, anEdge, 10*Milli)
	if got := s.At(anEdge + 3_600_000).Slots[i]; got != s.Slots[i] || got.End != 0 {
		t.Errorf("after an hour %+v, want %+v", got, s.Slots[i])
	}
	s.NoClock = true
	if got := s.At(anEdge + 3_600_000).Slots[i]; got.End != 0 || got.Tokens != 10*Milli {
		t.Errorf("without a clock %+v", got)
	}
}

// A changed quota keeps its spent tokens. Debt stays, unless a soft limit becomes hard. The level
// does not exceed the new amount, except for top-ups.
func TestChangedQuotasKeepSpentTokens(t *testing.T) {
	for _, c := range []struct {
		soft          bool
		tokens, extra int64
		capacity      int64
		want          int64
	}{
		{false, -5, 0, 12, -3}, {true, -5, 0, 12, 0}, {true, 4, 0, 12, 6}, {false, 4, 0, 5, -1},
		{false, 12, 0, 5, 5}, {false, 12, 2, 5, 7}, {false, 10, 0, 20, 20},
	} {
		l, want := daily, daily
		l.Soft, want.Capacity = c.soft, c.capacity*Milli
		s, i := one(l, anEdge+5000, c.tokens*Milli)
		s.Slots[i].Extra = c.extra * Milli
		got, changed := s.Adopt(want)
		if sl := got.Slots[i]; !changed || sl.Tokens != c.want*Milli || sl.Limit != want {
			t.Errorf("%+v: %+v, %t, want %d tokens", c, sl, changed, c.want)
		}
	}
}

// If a limit becomes a first-use quota, its spent tokens come back after one period. If nothing was
// spent, no period begins.
func TestSpentTokensBeginAFirstUsePeriod(t *testing.T) {
	want := daily
	want.Reset = "+3600"
	fives, rate := daily, Limit{Name: "q", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 86_400_000}
	fives.Reset = "+18000"
	for _, was := range []Limit{daily, fives, rate} {
		const over = anEdge + 3_600_000
		for tokens, end := range map[int64]int64{10: 0, 9: over, 0: over, -4: over} {
			s, i := one(was, anEdge, tokens*Milli)
			got, _ := s.Adopt(want)
			if sl := got.Slots[i]; sl.End != end || sl.Tokens != tokens*Milli {
				t.Errorf("%d of %s: %+v, want a period until %d", tokens, was, sl, end)
			}
			whole := got.At(anEdge + 3_600_000 + EdgeMargin).Slots[i]
			check.Equal(t, whole.Tokens, 10*Milli, "%d of %s: after the period", tokens, was)
		}
	}
}

// Held tokens do not reduce a quota at its edge, because holds end at the edge at the latest.
func TestHeldTokensDoNotLowerAQuotaAtItsEdge(t *testing.T) {
	s, i := one(daily, anEdge-5000, 0)
	s.Slots[i].End, s.Slots[i].Held, s.HeldUntil = anEdge, 3*Milli, anEdge+60_000
	if tokens, _ := s.LevelAt(i, anEdge+EdgeMargin); tokens != 10*Milli {
		t.Errorf("%d at its edge, want all", tokens)
	}
}

// After an edge, a state is stored as of before it. Advanced again, it is the same, including all
// remainders.
func TestStatesStoredAfterAnEdgeRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 2000 {
		rps := Limit{Name: "rps", Capacity: 1000 * Milli, Amount: 1 + rng.Int64N(5000), Period: 1 + rng.Int64N(7000)}
		s := New([]Limit{daily, rps}, 0, 1, anEdge+rng.Int64N(EdgeMargin))
		i, q := s.Index("rps"), s.Index("q")
		s.Slots[i].Tokens, s.Slots[i].Rest = rng.Int64N(500*Milli), rng.Int64N(rps.Period)
		s.Slots[q].Tokens, s.Slots[q].End = rng.Int64N(10*Milli), anEdge
		got := s.Stored()
		if got.RF >= anEdge || got.Slots[i].Rest < 0 || got.Slots[i].Rest >= rps.Period {
			t.Fatalf("%+v is stored as %+v", s, got)
		}
		if back := got.At(s.RF); !reflect.DeepEqual(back, s) {
			t.Fatalf("%+v is stored as %+v and comes back as %+v", s, got, back)
		}
	}
}

// An emptied state has no tokens, and nothing is held. Its write meter is full.
func TestEmptiedStatesHoldNothing(t *testing.T) {
	s, i := one(Limit{Name: "rps", Capacity: 10 * Milli, Amount: Milli, Period: 1000}, anEdge, 5)
	sl := &s.Slots[i]
	sl.Rest, sl.Used, sl.Held, sl.Ended = 1, 2, 3, 4
	got := s.Emptied()
	check.Equal(t, got.Slots[i], Slot{Limit: sl.Limit})
	w := got.Slots[got.Index(WCU)]
	check.Equal(t, w.Tokens, WCULimit().Capacity, "a write meter of")
}

// A quota merged from two shards ends at the later of their ends. Tokens above one share stay,
// minus the other shard's debt.
func TestMergedQuotasEndWithTheLaterShard(t *testing.T) {
	for _, c := range []struct{ a, b, want Slot }{
		{Slot{Tokens: 3000, End: 10}, Slot{Tokens: 1000, End: 20}, Slot{Tokens: 4000, End: 20}},
		{Slot{Tokens: 3000, End: 20}, Slot{Tokens: 9000, End: 10}, Slot{Tokens: 5000, End: 20}},
		{Slot{Tokens: 12_000, End: 20}, Slot{Tokens: -1000, End: 20}, Slot{Tokens: 11_000, End: 20}},
		{Slot{Tokens: 12_000, End: 20}, Slot{Tokens: 1000, End: 20}, Slot{Tokens: 12_000, End: 20}},
		{Slot{Tokens: 4000, Extra: 2000, End: 50}, Slot{Tokens: 3000, Extra: 1000, End: 60},
			Slot{Tokens: 7000, Extra: 3000, End: 60}}, // with the top-ups of both
		{Slot{Tokens: 4000, Extra: 1000}, Slot{Tokens: 9000}, Slot{Tokens: 6000, Extra: 1000}},
	} {
		got := c.a
		got.merge(c.b, 5000)
		check.Equal(t, got, c.want, "%+v and %+v", c.a, c.b)
	}
}
