package limiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
)

// A request to which others were faster gives up once its caller would not wait for another round trip,
// and has one left while there is time for just that. Others have all that they have not used.
func TestRoundTripsEndWithTheTimeOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{trip: 10 * ms, late: 15 * ms}
		for _, c := range []struct {
			trips int
			left  time.Duration // zero: its caller waits for ever
			lost  bool
			spent int
			last  bool
		}{
			{0, 0, true, 0, false},
			{0, 25 * ms, true, 0, false},
			{0, 25*ms - 1, true, known.MaxTrips - 1, true},
			{0, 15 * ms, true, known.MaxTrips - 1, true},
			{0, 15*ms - 1, true, known.MaxTrips, true},
			{0, 1, false, 0, true},
			{1, 25 * ms, true, 1, false},
			{known.MaxTrips - 1, 0, false, known.MaxTrips - 1, true},
			{known.MaxTrips, 20 * ms, true, known.MaxTrips, true},
		} {
			a := acquirer{trips: c.trips, lost: c.lost}
			if c.left > 0 {
				a.until = time.Now().Add(c.left)
			}
			if a.spent(p) != c.spent || a.outrun(p) != (c.spent == known.MaxTrips) || a.last(p) != c.last {
				t.Errorf("%+v: %d spent, outrun: %v, last: %v", c, a.spent(p), a.outrun(p), a.last(p))
			}
		}
	})
}

// A request joins those that wait for a write if its caller waits until that is answered and the next
// one is late. A write that takes longer than most is about to be answered, not answered already.
func TestWhoJoinsAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Limiter{store: &clocked{pace: pace{trip: 10 * ms, late: 30 * ms}}}
		for _, c := range []struct {
			under, left time.Duration // left 0: the caller waits for ever
			joins       bool
		}{
			{0, 40 * ms, true}, {0, 40*ms - 1, false}, {8 * ms, 32 * ms, true}, {8 * ms, 32*ms - 1, false},
			{20 * ms, 30 * ms, true}, {20 * ms, 30*ms - 1, false}, {30*ms - 1, 0, true}, {30 * ms, 0, false},
		} {
			me := &acquirer{}
			if c.left > 0 {
				me.until = time.Now().Add(c.left)
			}
			if got := l.joins(&flight{began: time.Now().Add(-c.under)}, me); got != c.joins {
				t.Errorf("%s after it was sent, with %s left: joins %v", c.under, c.left, got)
			}
		}
	})
}

// Others may have missed what an attempt had if it made a call of any kind, unless it stands in line.
func TestWhatOthersMayHaveMissed(t *testing.T) {
	for name, c := range map[string]struct {
		a    *attempt
		kept bool
	}{
		"no call":         {&attempt{}, false},
		"a call":          {&attempt{Attempt: known.Attempt{Calls: 1}}, true},
		"a round trip":    {&attempt{Attempt: known.Attempt{Trips: 1}}, true},
		"many":            {&attempt{Attempt: known.Attempt{Calls: 2, Trips: 2}}, true},
		"one in the line": {&attempt{Attempt: known.Attempt{Calls: 1, Trips: 1}, standing: true}, false},
	} {
		if got := c.a.kept(); got != c.kept {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Who was outrun once was outrun, whatever its next write is refused for. An answer of a bucket that is
// there is a round trip, and a creation that came too late is none.
func TestOutrunOnce(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	must(t, l, asks(Costs{"rpm": 1}, rpm10))
	k := l.desks.of(acmeGPT)
	image := k.Seen(0).Image
	image.Generation = 0 // a plan that tells none is of it
	k.See(image, l.now(), k.Seen(0).Serial)
	charge, add := known.Planned{Charges: true, Takes: true}, known.Planned{Takes: true}
	for i, c := range []struct {
		plans []known.Planned
		trips int
		lost  bool
	}{
		{nil, 0, false}, {[]known.Planned{add}, 1, false}, {[]known.Planned{charge}, 1, true},
		{[]known.Planned{charge, add}, 2, true}, {[]known.Planned{add, charge}, 2, true},
		{[]known.Planned{{Creates: true, Takes: true}, add}, 1, false},
	} {
		group := []*acquirer{{}, {}}
		for _, p := range c.plans {
			k.outbid(group, p)
		}
		for _, m := range group {
			if m.trips != c.trips || m.lost != c.lost {
				t.Errorf("case %d: %d round trips, outrun %v, want %d and %v", i, m.trips, m.lost, c.trips, c.lost)
			}
		}
	}
}
