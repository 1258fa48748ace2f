package ahead

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var rpm = bucket.Limit{Name: "rpm", Capacity: 600_000, Amount: 600_000, Period: 60_000}

func single(n int64) []table.Cost { return []table.Cost{{Limit: rpm, Milli: n * bucket.Milli}} }

// demandOf is the demand of single tokens, so many, one every so many milliseconds, and the
// instant of the last of them.
func demandOf(n int, every, life int64) (*Demand, int64) {
	d, at := &Demand{}, int64(began)
	for i := range n {
		at = began + int64(i)*every
		d.Asked(single(1), life, at)
	}
	return d, at
}

// However long a life is: who is asked once in it takes nothing ahead, most of which would end
// unspent; who is asked ten times does.
func TestWhoIsAskedSeldomInALifeIsNotBusy(t *testing.T) {
	for _, life := range []int64{500, 2_000, 10_000, 60_000} {
		for n := range 100 {
			if d, at := demandOf(n+1, life+1, life); d.Busy(life, at) {
				t.Fatalf("life %d ms: busy with one request in a life, after %d of them", life, n+1)
			}
		}
		if d, at := demandOf(100, life/10, life); !d.Busy(life, at) {
			t.Errorf("life %d ms: not busy with ten requests in a life", life)
		}
	}
}

// What comes regularly is measured within a tenth once it has come for 2.6 lives, also
// after a silence, and never taken for more.
func TestDemandIsKnownSoon(t *testing.T) {
	for _, life := range []int64{500, 10_000} {
		d, at := demandOf(50, life/50, life)
		for _, silence := range []int64{0, 100 * life} {
			for i := range 200 {
				at += life / 50
				if i == 0 {
					at += silence
				}
				d.Asked(single(1), life, at)
				in := d.Requests(at) * float64(life)
				if in > 53 || i >= 130 && in < 45 {
					t.Fatalf("life %d ms, silence %d ms: %.1f requests in a life after %d of them, of 50", life, silence, in, i)
				}
				if of := d.Of("rpm") * float64(life) / bucket.Milli; math.Abs(of-in) > 1e-6 {
					t.Fatalf("%.3f tokens in a life, of %.3f requests", of, in)
				}
			}
		}
	}
}

// Who is asked every 20 ms takes more ahead while two calls are still covered, and while three
// requests are still to come before what is held ends.
func TestMoreIsTakenAheadBeforeItIsNeeded(t *testing.T) {
	const life, trip = 500, 30
	for name, c := range map[string]struct {
		left  int64 // tokens, of 20
		after int64 // ms since they were taken
		low   bool
		set   int64 // ms that the clock on the wall was set by since
	}{
		"plenty":                       {left: 10, after: 100},
		"a fifth is left":              {left: 4, after: 100, low: true},
		"a little more":                {left: 5, after: 100},
		"four requests before it ends": {left: 10, after: life - trip - 4*20 - 5},
		"two before it ends":           {left: 10, after: life - trip - 2*20, low: true},
		"the clock was set ahead":      {left: 10, after: 100, low: true, set: life - trip - 2*20 - 100},
		"the clock was set back":       {left: 10, after: life - trip - 2*20, low: true, set: -100},
	} {
		d, at := demandOf(200, 20, life)
		h := &Holding{}
		now := Instant{Wall: at, Mono: at - began}
		h.Ask(table.Shard{}, single(20), life, now)
		h.Done(Written, table.Shard{})
		now = Instant{Wall: at + c.after, Mono: at + c.after - began}
		if !h.Take(single(20-c.left), now) {
			t.Fatalf("%s: nothing is held", name)
		}
		for i := at + 20; i <= now.Wall; i += 20 {
			d.Asked(single(1), life, i)
		}
		now.Wall += c.set
		if low := h.Low(d, single(20), trip, now); low != c.low {
			t.Errorf("%s: low %v, want %v", name, low, c.low)
		}
		if !h.Low(d, single(20), 10*trip, now) {
			t.Errorf("%s: what is left is used up while a call of 300 ms is under way", name)
		}
	}
}
