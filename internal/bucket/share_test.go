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
