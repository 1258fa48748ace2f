package decide

import (
	"testing"
	"time"
)

const msec = time.Millisecond

// An outrun request gives up when its caller would not wait for another round trip, and has one
// left while there is time for just that. Other requests have all their unused ones.
func TestRoundTripsEndWithTheTimeOfTheCaller(t *testing.T) {
	now := Now{At: time.Unix(1000, 0), Trip: 10, Late: 15 * msec}
	for _, c := range []struct {
		trips int
		left  time.Duration // zero: its caller has no deadline
		lost  bool
		spent int
		last  bool
	}{
		{0, 0, true, 0, false},
		{0, 25 * msec, true, 0, false},
		{0, 25*msec - 1, true, MaxTrips - 1, true},
		{0, 15 * msec, true, MaxTrips - 1, true},
		{0, 15*msec - 1, true, MaxTrips, true},
		{0, 1, false, 0, true},
		{1, 25 * msec, true, 1, false},
		{MaxTrips - 1, 0, false, MaxTrips - 1, true},
		{MaxTrips, 20 * msec, true, MaxTrips, true},
	} {
		w := Waiter{trips: c.trips, lost: c.lost}
		if c.left > 0 {
			w.Deadline = now.At.Add(c.left)
		}
		spent, lost := w.Spent(now)
		if spent != c.spent || lost != c.lost || w.outrun(now) != (c.spent == MaxTrips) || w.Last(now) != c.last {
			t.Errorf("%+v: %d spent, outrun: %v, last: %v", c, spent, w.outrun(now), w.Last(now))
		}
		if w.Waited(false); w.trips != c.trips+1 || w.lost != c.lost {
			t.Errorf("%+v: after a round trip that lost nothing: %d, lost %v", c, w.trips, w.lost)
		}
	}
}
