package function

import "testing"

// The age of a batch is not known if no record says when it was created, and never negative: a
// record may bear an instant that is ahead of this clock.
func TestTimed(t *testing.T) {
	for _, c := range []struct{ oldest, age int64 }{{0, -1}, {900, 100}, {1000, 0}, {1001, 0}} {
		var s Summary
		s.Timed(1000, 1012, c.oldest)
		if s.ElapsedMs != 12 || s.IteratorAgeMs != c.age {
			t.Errorf("oldest %d: %d ms, age %d, want 12 ms, age %d", c.oldest, s.ElapsedMs, s.IteratorAgeMs, c.age)
		}
	}
}

// What no alarm and no graph shows costs nothing, and neither does a zero of what some show.
func TestPublished(t *testing.T) {
	for name, want := range map[string][2]bool{ // of 0, of another value
		MetricChanges: {true, true}, MetricMalformed: {false, true}, MetricWritesFailed: {false, true},
		MetricRefills: {false, true}, MetricShardSteps: {false, true}, MetricUsageLagMs: {false, true},
		MetricWriteUnits: {false, true}, MetricRecords: {}, MetricWrites: {}, MetricIteratorAgeMs: {}, MetricElapsedMs: {},
	} {
		if got := [2]bool{Published(name, 0), Published(name, -3)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
