package config

import "testing"

// A note with an instant beyond any sound clock deletes nothing.
func TestNotesFarAheadDeleteNothing(t *testing.T) {
	const now = sampleNow
	it, _, err := Deleted("ns", "e", now+3*24*3_600_000).Apply(nil)
	if until := DeletedUntil(it, now); err != nil || until != 0 {
		t.Errorf("%v: usage until %d is deleted", err, until)
	}
}
