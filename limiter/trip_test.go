package limiter

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

// What writes are expected to take, by what they took.
func TestTrips(t *testing.T) {
	var calm, spiking []time.Duration
	for i := range 20 {
		calm = append(calm, time.Duration(4+i%2)*ms)
		spiking = append(spiking, 4*ms)
	}
	for _, c := range []struct {
		name          string
		took          []time.Duration
		typical, late time.Duration
	}{
		{"none answered", nil, 0, 0},
		{"one", []time.Duration{8 * ms}, 8 * ms, 12 * ms},
		{"at once", []time.Duration{0, 0, 0}, 0, 0},
		{"a slow one among five", []time.Duration{4 * ms, 5 * ms, 4 * ms, 900 * ms, 5 * ms}, 5 * ms,
			7500 * time.Microsecond},
		{"three slow ones among fifteen", append(calm[:15:15], 900*ms, 900*ms, 900*ms), 5 * ms,
			7500 * time.Microsecond},
		{"four slow ones", append(spiking[:20:20], 900*ms, 900*ms, 900*ms, 900*ms), 4 * ms, 1350 * ms},
		{"mostly slow", append(spiking[:20:20], 16*ms, 17*ms, 18*ms, 16*ms, 17*ms, 18*ms, 16*ms, 17*ms), 16 * ms,
			51 * ms / 2},
		{"fast again", append([]time.Duration{900 * ms, 900 * ms, 900 * ms}, spiking[:15]...), 4 * ms, 6 * ms},
	} {
		var got trips
		for _, took := range c.took {
			got.answered(took)
		}
		if got.pace().trip != c.typical || got.pace().late != c.late {
			t.Errorf("%s: %+v, want %s and %s", c.name, got.pace(), c.typical, c.late)
		}
	}
}

// The same, counted out naively: at least half of the last fifteen took no longer than
// the typical one, and four of five no longer than two thirds of the late one.
func TestTripsAreCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var got trips
	var all []time.Duration
	for i := range 2000 {
		took := time.Duration(r.ExpFloat64() * float64(50*ms))
		got.answered(took)
		all = append(all, took)
		last := all[max(0, len(all)-15):]
		count := func(most time.Duration) (n int) {
			for _, d := range last {
				if d <= most {
					n++
				}
			}
			return n
		}
		smallest := func(part float64) time.Duration {
			best := time.Duration(1 << 62)
			for _, d := range last {
				if float64(count(d)) >= part*float64(len(last)) {
					best = min(best, d)
				}
			}
			return best
		}
		if want := smallest(.5); len(last)%2 == 1 && got.pace().trip != want {
			t.Fatalf("step %d: typically %s, want %s of %v", i, got.pace().trip, want, last)
		}
		if want := smallest(.8) * 3 / 2; got.pace().late != want {
			t.Fatalf("step %d: late after %s, want %s of %v", i, got.pace().late, want, last)
		}
	}
}
