package function

import "testing"

// The age of a batch is unknown if no record has a creation time. It is never negative, even if a
// record is ahead of this clock.
func TestAgesAreNeverNegative(t *testing.T) {
	for _, c := range []struct{ oldest, age int64 }{{0, -1}, {900, 100}, {1000, 0}, {1001, 0}} {
		var s Summary
		s.Timed(1000, 1012, c.oldest)
		if s.ElapsedMs != 12 || s.IteratorAgeMs != c.age {
			t.Errorf("oldest %d: %d ms, age %d, want 12 ms, age %d", c.oldest, s.ElapsedMs, s.IteratorAgeMs, c.age)
		}
	}
}

// Metrics without an alarm or a graph are not published. Neither are zeros of some metrics.
func TestOnlyUsedMetricsArePublished(t *testing.T) {
	for name, want := range map[string][2]bool{ // for 0, and for another value
		MetricChanges: {true, true}, MetricMalformed: {false, true}, MetricWritesFailed: {false, true},
		MetricRefills: {false, true}, MetricShardSteps: {false, true}, MetricUsageLagMs: {false, true},
		MetricWriteUnits: {false, true}, MetricRecords: {}, MetricWrites: {}, MetricIteratorAgeMs: {}, MetricElapsedMs: {},
	} {
		if got := [2]bool{Published(name, 0), Published(name, -3)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
