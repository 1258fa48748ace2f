package streams

import (
	"encoding/json"
	"testing"
)

// A bucket from which nothing is taken in the hour of its creation has no snapshot
// of that hour. What is taken in the next one counts in the day too, although the
// day is left to be counted later.
func TestUsageOfABucketThatBeganUnused(t *testing.T) {
	r := newRig(t)
	hour := int64(3_600_000)
	r.now = t0 - t0%hour + hour - 60_000
	var state []byte
	invoke := func(seq int64, final bool) {
		t.Helper()
		out := r.handle(windowed(records(r.since(seq)), state, final))
		var answer struct{ State json.RawMessage }
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Fatal(err)
		}
		state = answer.State
	}
	r.take("acme", 0, 0, 0)
	invoke(0, false)
	first := int64(len(r.since(0)))
	r.now += 120_000
	r.take("acme", 0, 7, 0)
	invoke(first, false)
	invoke(first+1, true)
	for range 2 {
		r.now += 2 * hour
		state = nil
		invoke(first+1, true)
	}
	if diff := r.inexact(); diff != "" {
		t.Error(diff)
	}
}
