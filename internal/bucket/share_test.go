package bucket

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A bucket can be split while every share keeps a token, up to the given number of shards. Fits
// returns the largest such number.
func TestSplitsLeaveEachShareAToken(t *testing.T) {
	for _, c := range []struct {
		capacity, shards, most int
		split                  bool
		fitting                int
	}{
		{8, 1, 8, true, 1},
		{8, 4, 8, true, 4},
		{8, 8, 16, false, 8},  // shares of half a token
		{8, 16, 32, false, 8}, // another client raised the count
		{64, 8, 16, true, 8},
		{64, 8, 15, false, 8},
		{64, 1, 1, false, 1},
	} {
		s := New([]Limit{{Name: "rpm", Capacity: int64(c.capacity) * Milli, Amount: 60_000, Period: 1000}}, 0, c.shards, 1)
		check.Equal(t, s.CanSplit(c.most), c.split, "%+v: can be split", c)
		check.Equal(t, s.Fitting(), c.fitting, "%+v: fits", c)
	}
}

// A calendar quota is divided like a rate. A first-use quota is not, because the periods of its
// shares would begin at different times.
func TestFirstUseQuotasAreNotSplit(t *testing.T) {
	for reset, want := range map[string]struct {
		split   bool
		fitting int
	}{"m0h0D1@UTC": {true, 4}, "+3600": {false, 1}} {
		q := Limit{Name: "q", Capacity: 8 * Milli, Period: QuotaPeriod, Reset: reset}
		split, fitting := New([]Limit{q}, 0, 1, 1000).CanSplit(8), New([]Limit{q}, 0, 4, 1000).Fitting()
		if split != want.split || fitting != want.fitting {
			t.Errorf("%s: split %v, fits %d", reset, split, fitting)
		}
	}
}

// A bucket with as many limits as allowed can be split. With one more, it cannot.
func TestBucketsOfManyLimitsAreNotSplit(t *testing.T) {
	var limits []Limit
	for i := range MaxLimits + 1 {
		name := fmt.Sprintf("limit%02d", i)
		limits = append(limits, Limit{Name: name, Capacity: 8 * Milli, Amount: 8 * Milli, Period: 1000})
	}
	if !New(limits[:MaxLimits], 0, 1, 1).CanSplit(2) || New(limits, 0, 1, 1).CanSplit(2) {
		t.Errorf("%d limits: split %v, one more: %v", MaxLimits, New(limits[:MaxLimits], 0, 1, 1).CanSplit(2),
			New(limits, 0, 1, 1).CanSplit(2))
	}
}

// A new bucket is full, and so is its write meter. It can be divided among as many shards as refill
// by at least a millitoken each.
func TestNewBucketsAreFull(t *testing.T) {
	slow := Limit{Name: "slow", Capacity: 8 * Milli, Amount: 4, Period: 60_000}
	s := New([]Limit{slow}, 0, 1, 1)
	if i := s.Index(WCU); len(s.Slots) != 2 || i < 0 || s.Slots[i].Tokens != WCULimit().Capacity {
		t.Errorf("%+v has no full write meter", s)
	}
	for count, want := range map[int]bool{1: true, 2: true, 4: true, 8: false} {
		check.Equal(t, slow.divides(count), want, "4 millitokens a minute for %d shards", count)
	}
}

// A quota whose end is unknown has no edge. If the edge has passed, the quota is full at once.
func TestEdge(t *testing.T) {
	for _, c := range []struct{ at, end, want int64 }{
		{1000, 0, Never}, {1000, Never, Never}, {1000, 5000, 4000 + EdgeMargin}, {9000, 5000, 1},
	} {
		check.Equal(t, edge(c.at, c.end), c.want, "at %d, of a period until %d", c.at, c.end)
	}
}

// A state without a clock has no remainder: its refill begins now.
func TestRemaindersNeedAClock(t *testing.T) {
	rate := Limit{Name: "rps", Capacity: 2, Amount: 1, Period: 10}
	s, i := alone(rate, 0)
	s.Slots[i].Tokens, s.Slots[i].Rest = 0, 9
	needs := []int64{-1, -1}
	needs[i] = 1
	if v := s.Decide(needs, 0); v.At != 1 {
		t.Errorf("with a remainder of 9/10 the wait is until %d ms, want 1", v.At)
	}
	s.NoClock = true
	if v := s.Decide(needs, 0); v.At != 10 || v.Slot != i {
		t.Errorf("without a clock: %+v, want 10 ms", v)
	}
	s.NoClock, s.RF = false, MaxSkew+1
	if v := s.Decide(needs, 0); v.At != 10 || v.Slot != i {
		t.Errorf("with a clock that was far ahead: %+v, want 10 ms", v)
	}
}

// Tokens are held if one limit has held tokens, until its instant.
func TestSomeHeld(t *testing.T) {
	limits := []Limit{{Name: "a", Capacity: 10 * Milli, Amount: Milli, Period: 1000},
		{Name: "b", Capacity: 10 * Milli, Amount: Milli, Period: 1000}}
	s := New(limits, 0, 1, 0)
	if s.HeldUntil = 2000; s.SomeHeld(0) {
		t.Error("nothing is held")
	}
	s.Slots[s.Index("b")].Held = 1
	for at, want := range map[int64]bool{0: true, 1999: true, 2000: false} {
		check.Equal(t, s.SomeHeld(at), want, "at %d ms", at)
	}
}

// Each half of a split is a partition of its own, so its write meter is full, whatever it was
// before. Top-ups are divided. Held tokens stay with the first half.
func TestBothHalvesOfASplitHaveAFullMeter(t *testing.T) {
	quota := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	s := New([]Limit{quota}, 0, 1, 1000)
	q, w := s.Index("q"), s.Index(WCU)
	s.Slots[q].Tokens, s.Slots[q].Extra, s.Slots[q].Used, s.Slots[q].Ended = 12_001, 3001, 70, 7
	s.Slots[w].Tokens, s.Slots[w].Rest = 5, 999
	keep, moved := s.Split()
	for _, half := range []State{keep, moved} {
		if got := half.Slots[w]; got.Tokens != WCULimit().Capacity || got.Rest != 0 {
			t.Errorf("the write meter of shard %d has %d and a remainder of %d", half.Shard, got.Tokens, got.Rest)
		}
	}
	k, m := keep.Slots[q], moved.Slots[q]
	if k.Tokens != 6001 || k.Extra != 1501 || k.Used != 70 || k.Ended != 7 {
		t.Errorf("the first keeps %+v", k)
	}
	if m.Tokens != 6000 || m.Extra != 1500 || m.Used != 0 || m.Ended != 0 {
		t.Errorf("the second gets %+v", m)
	}
	if s.Slots[q].Tokens != 12_001 || s.Slots[w].Tokens != 5 {
		t.Error("the receiver was modified")
	}
}

// A merge adds up the levels of two shards. The other shard's remainder is converted to this one's
// period, and carries into a millitoken if it completes one. Quotas and the write meter have their
// own rules. A limit that the other shard lacks stays.
func TestMerge(t *testing.T) {
	quota := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	rate := Limit{Name: "r", Capacity: 10 * Milli, Amount: Milli, Period: 1000}
	slow, only := rate, rate
	slow.Period, only.Name = 4000, "only"
	a, b := New([]Limit{quota, rate, only}, 0, 2, 5000), New([]Limit{quota, slow}, 1, 2, 5000)
	set := func(s State, name string, sl Slot) {
		i := s.Index(name)
		s.Slots[i].Tokens, s.Slots[i].Rest, s.Slots[i].Extra, s.Slots[i].Used = sl.Tokens, sl.Rest, sl.Extra, sl.Used
	}
	set(a, "q", Slot{Tokens: 6000, Extra: 2000, Used: 4})
	set(b, "q", Slot{Tokens: 5500, Extra: 500, Used: 5})
	set(a, "r", Slot{Tokens: 3000, Rest: 600, Used: 6})
	set(b, "r", Slot{Tokens: 2000, Rest: 2000, Used: 7}) // half a millitoken
	set(a, "only", Slot{Tokens: 1000, Rest: 1})
	set(a, WCU, Slot{Tokens: 10})
	set(b, WCU, Slot{Tokens: 20})
	for _, c := range []struct {
		name string
		want Slot
	}{
		{"q", Slot{Tokens: 11_500, Extra: 2500, Used: 4}},
		{"r", Slot{Tokens: 5001, Rest: 100, Used: 6}},
		{"only", Slot{Tokens: 1000, Rest: 1}},
		{WCU, Slot{Tokens: 10}},
	} {
		got := a.Merge(b, 1)
		sl := got.Slots[got.Index(c.name)]
		if got.Shards != 1 || sl.Tokens != c.want.Tokens || sl.Rest != c.want.Rest || sl.Extra != c.want.Extra ||
			sl.Used != c.want.Used {
			t.Errorf("%s: %d+%d with %d extra and %d used, want %+v", c.name, sl.Tokens, sl.Rest, sl.Extra, sl.Used, c.want)
		}
	}
	set(b, "r", Slot{Tokens: 9000})
	if got := a.Merge(b, 1); got.Slots[got.Index("r")].Tokens != 10_000 {
		t.Errorf("together they have %d of 10000", got.Slots[got.Index("r")].Tokens)
	}
	check.Equal(t, a.Slots[a.Index("r")].Tokens, 3000, "the receiver was modified")
}

// The write meter is not divided, so it never limits the number of shards that is accepted,
// whatever writes cost. The largest request does limit it, and so do slots that the state lacks.
func TestHolds(t *testing.T) {
	s := New([]Limit{{Name: "rpm", Capacity: 4096 * Milli, Amount: 4096, Period: 1000}}, 0, 1, 1)
	for _, c := range []struct {
		count        int
		largest, wcu int64 // tokens
		undivided    bool
		want         bool
	}{
		{count: MaxShards, want: true},
		{count: MaxShards, largest: 4, wcu: 5000, want: true},
		{count: MaxShards, largest: 5},
		{count: 2, largest: 2048, want: true},
		{count: 2, largest: 2049},
		{count: 8192},
		{count: 2, undivided: true},
		{count: 1, undivided: true, want: true},
	} {
		s.Undivided = c.undivided
		largest := make([]int64, len(s.Slots))
		largest[s.Index("rpm")], largest[s.Index(WCU)] = c.largest*Milli, c.wcu*Milli
		check.Equal(t, s.Holds(c.count, largest), c.want, "%+v", c)
		if got := s.Holds(c.count, nil); c.largest == 0 && got != c.want {
			t.Errorf("%+v, with no request: %v", c, got)
		}
	}
}

// Slots stay on shard 0 with all that are in use, so a bucket with slots is not divided. If there
// is another shard nevertheless, it has none.
func TestSlotsAreNotDivided(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	s := New([]Limit{fly}, 0, 1, 40_000).Take([]int64{4 * Milli, 0})
	if s.CanSplit(32) || !s.Holds(1, nil) {
		t.Error("it can be split")
	}
	keep, moved := s.Split()
	if k := keep.Slots[0]; k.Tokens != 6*Milli || k.Taken.Of(1) != 4*Milli {
		t.Errorf("shard 0 keeps %+v", k)
	}
	if m := moved.Slots[0]; m.Tokens != 0 || m.Taken != (Taken{}) {
		t.Errorf("shard 1 has %+v", m)
	}
	if got := keep.Merge(moved, 1).Slots[0]; got.Tokens != 6*Milli || got.Taken.Of(1) != 4*Milli {
		t.Errorf("merged again it is %+v", got)
	}
}

// A merged shard holds the tokens of both shards until the later instant. Holds that are over at
// the merge do not count.
func TestMergesAddHeldTokens(t *testing.T) {
	rate := Limit{Name: "r", Capacity: 100 * Milli, Amount: Milli, Period: 1000}
	for _, c := range []struct{ mine, others, until, held, level int64 }{
		{7000, 8000, 8000, 5000, 60_000},
		{9000, 8000, 9000, 5000, 60_000},
		{7000, 5001, 7000, 5000, 60_000},
		{7000, 5000, 7000, 2000, 60_000},
		{7000, 4000, 7000, 2000, 60_000},
	} {
		a, b := New([]Limit{rate}, 0, 2, 5000), New([]Limit{rate}, 1, 2, 5000)
		a.Slots[0].Tokens, a.Slots[0].Held, a.HeldUntil = 40_000, 2000, c.mine
		b.Slots[0].Tokens, b.Slots[0].Held, b.HeldUntil = 20_000, 3000, c.others
		got := a.Merge(b, 1)
		if got.HeldUntil != c.until || got.Slots[0].Held != c.held || got.Slots[0].Tokens != c.level {
			t.Errorf("%+v: %d held until %d, %d left", c, got.Slots[0].Held, got.HeldUntil, got.Slots[0].Tokens)
		}
	}
}

// If nothing is held, a split gives the new shard no held tokens. Shard 0 has no parent, and has a
// count of one.
func TestSplitsWithoutHeldTokensHoldNone(t *testing.T) {
	if parent, count := SplitParent(0), CountWith(0); parent != 0 || count != 1 {
		t.Errorf("shard 0: of %d with %d", parent, count)
	}
	s := New([]Limit{{Name: "a", Capacity: 10 * Milli, Amount: Milli, Period: 1000}}, 0, 1, 1000)
	if s.HeldUntil = 5000; s.Slots[0].Held != 0 {
		t.Fatal("something is held")
	}
	if _, moved := s.Split(); moved.HeldUntil != 0 {
		t.Errorf("the new shard holds nothing until %d", moved.HeldUntil)
	}
}
