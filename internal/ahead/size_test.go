package ahead

import (
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var (
	requests = bucket.Limit{Name: "rps", Capacity: 100_000, Amount: 100_000, Period: 1000}
	tokens   = bucket.Limit{Name: "tps", Capacity: 100_000, Amount: 25_000, Period: 1000}
)

// tenOf is what ten requests at one instant leave of demand, each of so many millitokens.
func tenOf(costs ...int64) *Demand {
	d := &Demand{}
	for range 10 {
		d.Asked(table.Costs([]bucket.Limit{requests, tokens}, costs...), 500, 10_000)
	}
	return d
}

// Ten requests at once, after a silence, stand for a life of 500 ms, in which four come again almost for sure.
// In a life twice as long eleven do, and less is taken where much is held or little is there.
func TestSizeOfAnAllotment(t *testing.T) {
	for _, c := range []struct {
		name      string
		demand    *Demand
		room      [2]int64
		left      int64 // of requests
		life, now int64
		want      [2]int64 // zero: nothing is taken
	}{
		{"what is sure", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 1000, 10_000, [2]int64{11_000, 0}},
		{"of a life half as long, less", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 500, 10_000, [2]int64{4000, 0}},
		{"less what is held", tenOf(1000, 0), [2]int64{45_000, 0}, 3000, 1000, 10_000, [2]int64{8000, 0}},
		{"in whole tokens", tenOf(1000, 0), [2]int64{45_000, 0}, 3500, 1000, 10_000, [2]int64{7000, 0}},
		{"with 20, nothing", tenOf(1000, 0), [2]int64{45_000, 0}, 20_000, 1000, 10_000, [2]int64{}},
		{"no more than there is room for", tenOf(1000, 0), [2]int64{5500, 0}, 0, 1000, 10_000, [2]int64{5000, 0}},
		{"of two limits, what the shorter one has", tenOf(1000, 3000), [2]int64{45_000, 14_500}, 0, 1000, 10_000,
			[2]int64{4000, 14_000}},
		{"of a limit in debt nothing is asked", tenOf(1000, 0), [2]int64{45_000, -2500}, 0, 1000, 10_000,
			[2]int64{11_000, 0}},
		{"too little for anything", tenOf(1000, 0), [2]int64{500, 0}, 0, 1000, 10_000, [2]int64{}},
		{"nearly enough for a request", tenOf(1000, 0), [2]int64{900, 0}, 0, 1000, 10_000, [2]int64{}},
		{"in debt", tenOf(1000, 0), [2]int64{-2500, 0}, 0, 1000, 10_000, [2]int64{}},
		{"requests for less than a token each", tenOf(10, 0), [2]int64{45_000, 0}, 0, 1000, 10_000, [2]int64{}},
		{"a life of four requests, of which one is sure", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 200, 10_000, [2]int64{}},
		{"a quota", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 0, 10_000, [2]int64{}},
		{"350 ms later there is less of the demand", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 1000, 10_350,
			[2]int64{8000, 0}},
		{"by a clock that was set back it is all there", tenOf(1000, 0), [2]int64{45_000, 0}, 0, 1000, 9500,
			[2]int64{11_000, 0}},
	} {
		costs := table.Costs([]bucket.Limit{requests, tokens}, 7000, 7000) // what one request costs decides nothing
		left := func(limit string) int64 { return map[string]int64{requests.Name: c.left}[limit] }
		take := c.demand.Size(costs, c.room[:], false, 0, left, c.life, c.now)
		if (take != nil) != (c.want != [2]int64{}) {
			t.Errorf("%s: %v, want %v", c.name, take, c.want)
		}
		for i := range take {
			if take[i].Limit != costs[i].Limit || take[i].Milli != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, take, c.want)
			}
		}
	}
}

// A second way to reckon how much is taken says the same, whatever is asked for, there and held.
func TestSizeIsWhatDemandAndLevelsLeave(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	taken, short, nothing := 0, 0, 0
	for n := range 5000 {
		d, now, life := &Demand{}, int64(began), 100+r.Int64N(1500)
		limits := []bucket.Limit{requests, tokens}
		for range r.IntN(60) {
			now += r.Int64N(60)
			d.Asked(table.Costs(limits, r.Int64N(3)*700, r.Int64N(4)*900), life, now)
		}
		d.gap, d.since = float64(r.IntN(3)*1000), r.Float64()*5000
		d.before, d.granted = float64(r.IntN(3)*1000), r.Float64()*3000
		room := []int64{r.Int64N(30_000) - 2500, r.Int64N(30_000) - 2500}
		left := map[string]int64{requests.Name: r.Int64N(8000), tokens.Name: r.Int64N(8000)}
		paced, per := r.IntN(2) == 0, d.Requests(now)*float64(life)
		unused := r.Float64() - .3
		most := d.sure(life, now, .03)
		if d.before == 0 || max(d.before, d.granted)/200 >= per {
			most = max(most, min(float64(int(per/2)), d.sure(life, now, unused/5)))
		}
		denies := d.gap > 0 && d.gap/200 < per && d.since/200 < per
		if paced || denies {
			most = d.sure(life, now, .005)
			if d.before > 0 {
				most = min(most, max(d.before, d.granted)/200)
			}
		}
		if denies && !paced {
			most = min(most, max(d.gap, d.since)/200)
		}
		var wants [2]float64
		share := 1.
		for i, l := range limits {
			wants[i] = max(0, d.Of(l.Name)*float64(life)*most/max(per, 1e-9)-float64(left[l.Name]))
			if there := max(0, float64(room[i])); there < share*wants[i] {
				share = there / wants[i]
			}
		}
		var want [2]int64
		isShort := most >= 2 && most*share < 1
		if most >= 2 && !isShort {
			for i := range want {
				want[i] = int64(wants[i]*share/1000+1e-6) * 1000
			}
		}
		of := func(limit string) int64 { return left[limit] }
		take := d.Size(table.Costs(limits), room, paced, unused, of, life, now)
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

// Two requests in a life are busy.
func TestBusy(t *testing.T) {
	d := &Demand{}
	for n, want := range []bool{false, false, true, true} {
		if got := d.Busy(900, 1000); got != want {
			t.Errorf("after %d requests: busy %v", n, got)
		}
		d.Asked(table.Costs([]bucket.Limit{requests}, 1000), 900, 1000)
	}
	if d.Busy(0, 1000) || d.Busy(900, 5000) {
		t.Error("busy without a life, or seconds later")
	}
	if d.Of("other") != 0 {
		t.Error("what nobody asked for is in demand")
	}
}

// Tokens are held for half of the time in which the fastest rate fills, never longer than
// is asked for or is bounded. Slots, which are given back, do not shorten that. Beside a soft limit or a
// floor none are held.
func TestLife(t *testing.T) {
	slow := bucket.Limit{Name: "rpd", Capacity: 100_000, Amount: 1000, Period: 86_400_000}
	quota := bucket.Limit{Name: "day", Capacity: 9000, Period: bucket.QuotaPeriod, Reset: "daily"}
	slots := bucket.Limit{Name: "calls", Capacity: 9000, AtOnce: true, Period: 1000}
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
		if got := Life(table.Costs(c.limits), c.most); got != c.want {
			t.Errorf("%v, at most %d: %d, want %d", c.limits, c.most, got, c.want)
		}
	}
	soft := requests
	soft.Soft = true
	for name, costs := range map[string][]table.Cost{
		"a soft limit": table.Costs([]bucket.Limit{tokens, soft}), "a floor": {{Limit: requests}, {Limit: tokens, Floor: 1}},
	} {
		if got := Life(costs, 10_000); got != 0 {
			t.Errorf("beside %s: %d, want nothing", name, got)
		}
	}
}
