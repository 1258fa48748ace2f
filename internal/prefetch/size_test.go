package prefetch

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var (
	requests = bucket.Limit{Name: "rps", Capacity: 100_000, Amount: 100_000, Period: 1000}
	tokens   = bucket.Limit{Name: "tps", Capacity: 100_000, Amount: 25_000, Period: 1000}
)

// tenOf returns the demand of ten requests at one instant, each of these millitokens.
func tenOf(costs ...int64) *Demand {
	d := &Demand{}
	for range 10 {
		d.Asked(table.Costs([]bucket.Limit{requests, tokens}, costs...), 500, 1000)
	}
	return d
}

// Ten requests at once, after a silence, stand for 85 % of 850 ms and are 13.8 a second: for a
// second, 85 % of them are prefetched, eleven, and less if much is held or little is available.
func TestSizeOfAnAllotment(t *testing.T) {
	for _, c := range []struct {
		name      string
		demand    *Demand
		room      [2]int64
		left      int64 // of requests
		life, now int64
		want      [2]int64 // zero: nothing is taken
	}{
		{"85 % of the demand", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 1000, 1000, [2]int64{11_000, 0}},
		{"with 5, only 8 more", tenOf(1000, 0), [2]int64{45_000, 0}, 5000, 1000, 1000, [2]int64{8000, 0}},
		{"no more than there is room for", tenOf(1000, 0), [2]int64{5500, 0}, 0, 1000, 1000, [2]int64{5000, 0}},
		{"of two limits, what the shorter one has", tenOf(1000, 3000), [2]int64{45_000, 14_500}, 0, 1000, 1000,
			[2]int64{4000, 14_000}},
		{"a life of two requests", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 200, 1000, [2]int64{}},
		{"850 ms later there is a third of the demand", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 1000, 1850,
			[2]int64{4000, 0}},
		{"by a clock that was set back it is all there", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 1000, 500,
			[2]int64{11_000, 0}},
	} {
		costs := table.Costs([]bucket.Limit{requests, tokens}, 7000, 7000) // the costs of one request do not matter
		left := func(limit string) int64 { return map[string]int64{requests.Name: c.left}[limit] }
		take := c.demand.Size(costs, c.room[:], 0, left, c.life, c.now)
		check.Equal(t, take != nil, c.want != [2]int64{}, "%s: %v, want %v", c.name, take, c.want)
		for i := range take {
			if take[i].Limit != costs[i].Limit || take[i].Milli != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, take, c.want)
			}
		}
	}
}

// A second way to compute the size agrees, for any demand, levels and held tokens.
func TestSizeEqualsANaiveOne(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	taken, short, nothing := 0, 0, 0
	for n := range 5000 {
		d, now, life := &Demand{}, int64(began), 100+r.Int64N(1500)
		limits := []bucket.Limit{requests, tokens}
		for range r.IntN(30) {
			now += r.Int64N(60)
			d.Asked(table.Costs(limits, r.Int64N(3)*700, r.Int64N(4)*900), life, now)
		}
		room := []int64{r.Int64N(30_000) - 2500, r.Int64N(30_000) - 2500}
		price, part := float64(r.IntN(3))/2, .85
		left := map[string]int64{requests.Name: r.Int64N(8000), tokens.Name: r.Int64N(8000)}
		per := d.Requests(now) * float64(life)
		if price > 0 { // a grant is worth 40 writes
			part = min(part, (per-math.Log(40*price)/1.7*math.Sqrt(per))/per)
		}
		var wants [2]float64
		share := 1.
		for i, l := range limits {
			whole := d.Of(l.Name) * float64(life)
			wants[i] = max(0, min(part*whole, .95*whole-float64(left[l.Name])))
			if most := max(0, float64(room[i])); most < share*wants[i] {
				share = most / wants[i]
			}
		}
		var want [2]int64
		isShort := per >= 3.7 && part*per*share < 1
		if per >= 3.7 && !isShort {
			for i := range want {
				want[i] = int64(wants[i]*share/1000) * 1000
			}
		}
		take := d.Size(table.Costs(limits), room, price, func(limit string) int64 { return left[limit] }, life, now)
		got := [2]int64{}
		for i := range take {
			got[i] = take[i].Milli
		}
		if got != want || (take == nil) != (want == [2]int64{}) {
			t.Fatalf("run %d: %v of %v, want %v", n, take, wants, want)
		}
		switch {
		case take != nil:
			taken++
		case isShort:
			short++
		default:
			nothing++
		}
	}
	if min(taken, short, nothing) < 300 {
		t.Errorf("%d taken, %d short, %d times nothing: the random demands show little", taken, short, nothing)
	}
}

// Tokens are held for half of the time in which the fastest rate fills, never longer than requested
// or than the bound. Slots do not shorten that. With a soft limit or a floor, none are held.
func TestLife(t *testing.T) {
	slow := bucket.Limit{Name: "rpd", Capacity: 100_000, Amount: 1000, Period: 86_400_000}
	quota := bucket.Limit{Name: "day", Capacity: 9000, Period: bucket.QuotaPeriod, Reset: "daily"}
	slots := bucket.Limit{Name: "calls", Capacity: 9000, InFlight: true, Period: 1000}
	for _, c := range []struct {
		limits     []bucket.Limit
		most, want int64
	}{
		{[]bucket.Limit{requests}, 10_000, 500},
		{[]bucket.Limit{tokens, requests}, 10_000, 500},
		{[]bucket.Limit{{Name: "fast", Capacity: 1000, Amount: 1, Period: 1}}, 10_000, 500},
		{[]bucket.Limit{requests, tokens}, 10_000, 500},
		{[]bucket.Limit{tokens}, 10_000, 2000},
		{[]bucket.Limit{tokens}, 1500, 1500},
		{[]bucket.Limit{slow}, 10_000, 10_000},
		{[]bucket.Limit{slow}, 2 * bucket.MaxAhead, bucket.MaxAhead},
		{[]bucket.Limit{requests, quota}, 10_000, 500},
		{[]bucket.Limit{quota}, 10_000, 10_000},
		{[]bucket.Limit{slots}, 10_000, 10_000},
		{[]bucket.Limit{requests, slots}, 10_000, 500},
	} {
		check.Equal(t, Life(table.Costs(c.limits), c.most), c.want, "%v, at most %d", c.limits, c.most)
	}
	soft := requests
	soft.Soft = true
	for name, costs := range map[string][]table.Cost{
		"a soft limit": table.Costs([]bucket.Limit{tokens, soft}), "a floor": {{Limit: requests}, {Limit: tokens, Floor: 1}},
	} {
		check.Equal(t, Life(costs, 10_000), 0, "beside %s, want nothing", name)
	}
}

// If expired tokens are missed, an allotment is so small that hardly any of it expires, with random
// requests: of 16 in a life, 16 - 2.17*4 = 7.3 are almost sure; of 4, none.
func TestScarceTokensAreTakenOnlyForSureRequests(t *testing.T) {
	none := func(string) int64 { return 0 }
	for _, c := range []struct {
		life  int64
		price float64
		want  int64
	}{{1160, 0, 13_000}, {1160, .1, 12_000}, {1160, 1, 7000}, {290, 0, 3000}, {290, 1, 0}} {
		d, got := tenOf(1000, 0), int64(0)
		if take := d.Size(table.Costs([]bucket.Limit{requests}), []int64{45_000}, c.price, none, c.life, 1000); take != nil {
			got = take[0].Milli
		}
		check.Equal(t, got, c.want, "a life of %d ms, at %v: taken", c.life, c.price)
		sure := d.Sure(c.life, 1000)
		if c.price == 1 && int64(sure) != c.want/1000 || sure > 0 && sure < worthwhile {
			t.Errorf("of a life of %d ms: %v are sure, want %d", c.life, sure, c.want/1000)
		}
	}
}

// Requests that have stopped before may stop again: after bursts of 400, at most 100 tokens are
// held, and if all expired tokens are missed, 100/41.
func TestBurstsEnd(t *testing.T) {
	d, now := &Demand{}, int64(began)
	burst := func() {
		for range 400 {
			d.Asked(table.Costs([]bucket.Limit{requests}, 1000), 500, now)
		}
	}
	burst()
	if got := d.sure(0, 500, now); math.Abs(got-part*d.Requests(now)*500) > 1e-6 {
		t.Errorf("%v, before any silence", got)
	}
	for range 40 {
		now += 10_000
		burst()
	}
	for price, want := range map[float64]float64{0: 100, 1: 100. / 41} {
		if got := d.sure(price, 500, now); math.Abs(got-want) > .01 {
			t.Errorf("at %v: %v, want %v", price, got, want)
		}
	}
}

// After a denial, expired tokens count as missed until so many requests were granted that a denial
// is rare: of 20 in a life, 4*20/0.5 = 160.
func TestDenialsAreRemembered(t *testing.T) {
	d, now := &Demand{}, int64(began)
	ask := func(n int) {
		for range n {
			now += 25
			d.Asked(table.Costs([]bucket.Limit{requests}, 1000), 500, now)
		}
	}
	is := func(want float64) {
		t.Helper()
		if got := d.Missed(.5, 500, now); math.Abs(got-want) > .02 {
			t.Errorf("missed with a chance of %v, want %v", got, want)
		}
	}
	ask(1000)
	is(0)
	d.Denied()
	is(1)
	ask(159)
	is(1)
	ask(160)
	is(.5)
	ask(1280)
	is(.1)
}
