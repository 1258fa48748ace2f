package prefetch

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var rpm = bucket.Limit{Name: "rpm", Capacity: 600_000, Amount: 600_000, Period: 60_000}

func single(n int64) []table.Cost { return []table.Cost{{Limit: rpm, Milli: n * bucket.Milli}} }

// demandOf returns the demand of n requests for single tokens, at equal distances in milliseconds,
// and the instant of the last one.
func demandOf(n int, every, life int64) (*Demand, int64) {
	d, at := &Demand{}, int64(began)
	for i := range n {
		at = began + int64(i)*every
		d.Asked(single(1), life, at)
	}
	return d, at
}

// However long a life is, a process with one request in it prefetches nothing, because most tokens
// would expire unspent; with ten requests it does.
func TestDemandOfOneRequestInALifeIsNotBusy(t *testing.T) {
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

// The demand is the sum of all requests since the last silence, fading over time, divided by the
// time for which they stand; setting the clock back changes nothing.
func TestDemandIsASum(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	other := rpm
	other.Name = "other"
	type asked struct{ at, milli, other int64 }
	for run := range 200 {
		life := []int64{100, 500, 2000}[run%3]
		fades := max(850, 1.7*float64(life))
		d, now, latest, reckoned, all := &Demand{}, int64(began), int64(0), int64(0), []asked(nil)
		for step := range 60 {
			back := int64(0)
			switch r.IntN(12) {
			case 0:
				now += int64(fades) + r.Int64N(3) // a silence, if it is that long
			case 1:
				back = r.Int64N(300)
			default:
				now += r.Int64N(200)
			}
			at := now - back
			a := asked{max(at, reckoned), r.Int64N(3) * 500, r.Int64N(2) * 300}
			if float64(at-latest) > fades {
				all = nil
			}
			latest = max(latest, at)
			all = append(all, a)
			d.Asked(table.Costs([]bucket.Limit{rpm, other}, a.milli, a.other), life, at)
			later := max(latest, reckoned) + r.Int64N(100)
			reckoned = later
			n, milli := 0., 0.
			for _, a := range all {
				weight := math.Exp(-float64(later-a.at) / fades)
				n, milli = n+weight, milli+weight*float64(a.milli)
			}
			stands := fades * max(.85, 1-math.Exp(-float64(later-all[0].at)/fades))
			if got, want := d.Requests(later), n/stands; math.Abs(got-want) > 1e-9 {
				t.Fatalf("run %d, step %d: %v requests a millisecond, want %v", run, step, got, want)
			}
			if got, want := d.Of("rpm"), milli/stands; math.Abs(got-want) > 1e-6 {
				t.Fatalf("run %d, step %d: a demand of %v, want %v", run, step, got, want)
			}
			if len(d.costs) > 2 {
				t.Fatalf("run %d, step %d: %v of two limits", run, step, d.costs)
			}
			now = max(now, later)
		}
	}
}

// A process with a request every 20 ms prefetches more while the tokens still cover two calls, and
// while three requests are expected before the held tokens expire.
func TestMoreIsTakenAheadBeforeItIsNeeded(t *testing.T) {
	const life, trip = 500, 30
	for name, c := range map[string]struct {
		left  int64 // tokens, of 20
		after int64 // ms since they were taken
		low   bool
		set   int64 // ms by which the wall clock was set since
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
		check.Equal(t, h.Low(d, single(20), trip, now), c.low, name)
		none := append(single(20), table.Cost{Limit: requests}) // it has no cost
		check.Equal(t, h.Low(d, none, trip, now), c.low, "%s, with a limit without a cost", name)
		if h.Low(d, none[1:], trip, now) || h.Low(d, nil, trip, now) {
			t.Errorf("%s: low of nothing", name)
		}
		if !h.Low(d, single(20), 10*trip, now) {
			t.Errorf("%s: the rest is used up while a call of 300 ms is under way", name)
		}
	}
}

// Requests for slots count as requests, but slots are not demand: they are not prefetched.
func TestSlotsAreNoDemand(t *testing.T) {
	d := &Demand{}
	slots := bucket.Limit{Name: "calls", Capacity: 9000, InFlight: true, Period: 1000}
	d.Asked(table.Costs([]bucket.Limit{slots, rpm}, 1000, 1000), 500, began)
	if d.Of("calls") != 0 || d.Of("rpm") == 0 || d.Requests(began) == 0 {
		t.Errorf("a demand of %v slots and %v tokens, in %v requests", d.Of("calls"), d.Of("rpm"), d.Requests(began))
	}
}
