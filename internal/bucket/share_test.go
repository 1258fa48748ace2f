package bucket

import "testing"

// A bucket is split as long as every share keeps a token, up to the most shards that are
// asked for, and fits the largest such count.
func TestHowFarABucketIsSplit(t *testing.T) {
	for _, c := range []struct {
		capacity, shards, most int
		split                  bool
		fitting                int
	}{
		{8, 1, 8, true, 1},
		{8, 4, 8, true, 4},
		{8, 8, 16, false, 8},  // shares of half a token
		{8, 16, 32, false, 8}, // another client has raised the count
		{64, 8, 16, true, 8},
		{64, 8, 15, false, 8},
		{64, 1, 1, false, 1},
	} {
		s := New([]Limit{{Name: "rpm", Capacity: int64(c.capacity) * Milli, Amount: 60_000, Period: 1000}}, 0, c.shards, 1)
		if got := s.CanSplit(c.most); got != c.split {
			t.Errorf("%+v: can be split %v", c, got)
		}
		if got := s.Fitting(); got != c.fitting {
			t.Errorf("%+v: fits %d", c, got)
		}
	}
}

// A bucket begins full, with its write meter, and can be divided among as many shards as each of
// them is refilled by a millitoken at least.
func TestANewBucket(t *testing.T) {
	slow := Limit{Name: "slow", Capacity: 8 * Milli, Amount: 4, Period: 60_000}
	s := New([]Limit{slow}, 0, 1, 1)
	if i := s.Index(WCU); len(s.Slots) != 2 || i < 0 || s.Slots[i].Tokens != WCULimit().Capacity {
		t.Errorf("%+v has no full write meter", s)
	}
	for count, want := range map[int]bool{1: true, 2: true, 4: true, 8: false} {
		if got := slow.divides(count); got != want {
			t.Errorf("4 millitokens a minute for %d shards: %v", count, got)
		}
	}
}

// A quota of which nobody knows when its period ends has no edge, and one whose edge has passed
// is whole at once.
func TestEdge(t *testing.T) {
	for _, c := range []struct{ at, end, want int64 }{
		{1000, 0, Never}, {1000, Never, Never}, {1000, 5000, 4000 + EdgeMargin}, {9000, 5000, 1},
	} {
		if got := edge(c.at, c.end); got != c.want {
			t.Errorf("at %d, of a period until %d: %d, want %d", c.at, c.end, got, c.want)
		}
	}
}

// A state without a clock has no remainder: what it lacks is refilled from now on.
func TestWithoutAClockNothingRemains(t *testing.T) {
	rate := Limit{Name: "rps", Capacity: 2, Amount: 1, Period: 10}
	s := New([]Limit{rate}, 0, 1, 0)
	i := s.Index("rps")
	s.Slots[i].Tokens, s.Slots[i].Rest = 0, 9
	needs := []int64{-1, -1}
	needs[i] = 1
	if v := s.Decide(needs, 0); v.At != 1 {
		t.Errorf("with a remainder of 9/10 it is there at %d ms, want 1", v.At)
	}
	s.NoClock = true
	if v := s.Decide(needs, 0); v.At != 10 || v.Slot != i {
		t.Errorf("without a clock: %+v, want 10 ms", v)
	}
}

// Something is held as long as one limit says so, until its instant.
func TestSomeHeld(t *testing.T) {
	limits := []Limit{{Name: "a", Capacity: 10 * Milli, Amount: Milli, Period: 1000},
		{Name: "b", Capacity: 10 * Milli, Amount: Milli, Period: 1000}}
	s := New(limits, 0, 1, 0)
	if s.HeldUntil = 2000; s.SomeHeld(0) {
		t.Error("nothing is held")
	}
	s.Slots[s.Index("b")].Held = 1
	for at, want := range map[int64]bool{0: true, 1999: true, 2000: false} {
		if got := s.SomeHeld(at); got != want {
			t.Errorf("at %d ms: %v", at, got)
		}
	}
}
