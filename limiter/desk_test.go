package limiter

import "testing"

// The writes under way are noted by shard, each by itself.
func TestWritesUnderWayAreNotedByShard(t *testing.T) {
	var all flights
	one, two := &flight{}, &flight{}
	all.set(0, one)
	all.set(1, two)
	if all[0] != one || all[1] != two {
		t.Errorf("noted %v", all)
	}
	if all.set(0, nil); all[0] != nil || all[1] != two || len(all) != 1 {
		t.Errorf("left %v", all)
	}
}
