package config

import "testing"

// A note that no sound clock has written deletes nothing.
func TestANoteFarAheadMeansNothing(t *testing.T) {
	const now = sampleNow
	it, _, err := Deleted("ns", "e", now+3*24*3_600_000).Apply(nil)
	if until := DeletedUntil(it, now); err != nil || until != 0 {
		t.Errorf("%v: usage until %d is deleted", err, until)
	}
}
