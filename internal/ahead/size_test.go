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
		d.Asked(table.Costs([]bucket.Limit{requests, tokens}, costs...), 500, 1000)
	}
	return d
}

// Ten requests at once, after a silence, stand for 85 % of 850 ms and are 13.8 a second: for a
// second 80 % of them are taken ahead, eleven, and less where much is held or little is there.
func TestSizeOfAnAllotment(t *testing.T) {
	for _, c := range []struct {
		name      string
		demand    *Demand
		levels    [2]int64
		left      int64 // of requests
		life, now int64
		want      [2]int64 // zero: nothing is taken
		short     bool
	}{
		{"80 % of the demand", tenOf(1000, 0), [2]int64{90_000, 0}, 0, 1000, 1000, [2]int64{11_000, 0}, false},
		{"of a life half as long, half", tenOf(1000, 0), [2]int64{90_000, 0}, 0, 500, 1000, [2]int64{5000, 0}, false},
		{"2 of 13 may be held beside it", tenOf(1000, 0), [2]int64{90_000, 0}, 2000, 1000, 1000, [2]int64{11_000, 0}, false},
		{"with 5, only 8 more", tenOf(1000, 0), [2]int64{90_000, 0}, 5000, 1000, 1000, [2]int64{8000, 0}, false},
		{"with 3.5, 95 % of it", tenOf(1000, 0), [2]int64{90_000, 0}, 3500, 1000, 1000, [2]int64{9000, 0}, false},
		{"with 20, nothing", tenOf(1000, 0), [2]int64{90_000, 0}, 20_000, 1000, 1000, [2]int64{}, false},
		{"half of what the level leaves", tenOf(1000, 0), [2]int64{11_000, 0}, 0, 1000, 1000, [2]int64{5000, 0}, false},
		{"of two limits, what the shorter one has", tenOf(1000, 3000), [2]int64{90_000, 29_000}, 0, 1000, 1000,
			[2]int64{4000, 14_000}, false},
		{"of a limit in debt nothing is asked", tenOf(1000, 0), [2]int64{90_000, -5000}, 0, 1000, 1000,
			[2]int64{11_000, 0}, false},
		{"too little for anything", tenOf(1000, 0), [2]int64{1000, 0}, 0, 1000, 1000, [2]int64{}, true},
		{"nearly enough for a request", tenOf(1000, 0), [2]int64{1800, 0}, 0, 1000, 1000, [2]int64{}, true},
		{"in debt", tenOf(1000, 0), [2]int64{-5000, 0}, 0, 1000, 1000, [2]int64{}, true},
		{"requests for less than a token each", tenOf(10, 0), [2]int64{90_000, 0}, 0, 1000, 1000, [2]int64{}, false},
		{"a life of one request", tenOf(1000, 0), [2]int64{90_000, 0}, 0, 100, 1000, [2]int64{}, false},
		{"a quota", tenOf(1000, 0), [2]int64{90_000, 0}, 0, 0, 1000, [2]int64{}, false},
		{"850 ms later there is a third of the demand", tenOf(1000, 0), [2]int64{90_000, 0}, 0, 1000, 1850,
			[2]int64{4000, 0}, false},
		{"by a clock that was set back it is all there", tenOf(1000, 0), [2]int64{90_000, 0}, 0, 1000, 500,
			[2]int64{11_000, 0}, false},
	} {
		costs := table.Costs([]bucket.Limit{requests, tokens}, 7000, 7000) // what one request costs decides nothing
		left := func(limit string) int64 { return map[string]int64{requests.Name: c.left}[limit] }
		take, short := c.demand.Size(costs, c.levels[:], left, c.life, c.now)
		if short != c.short || (take != nil) != (c.want != [2]int64{}) {
			t.Errorf("%s: %v, short %v", c.name, take, short)
		}
		for i := range take {
			if take[i].Limit != costs[i].Limit || take[i].Milli != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, take, c.want)
			}
		}
	}
}

// A quarter of what is left covers 80 % of the demand of a life, 11.06 requests of 13.8 in a
// second. What nobody asks for needs nothing.
func TestPlenty(t *testing.T) {
	costs := table.Costs([]bucket.Limit{requests, tokens}, 1000, 1000)
	for _, c := range []struct {
		demand *Demand
		levels []int64
		life   int64
		want   bool
	}{
		{tenOf(1000, 0), []int64{45_000, -5000}, 1000, true},
		{tenOf(1000, 0), []int64{44_000, 90_000}, 1000, false},
		{tenOf(1000, 0), []int64{23_000, 0}, 500, true},
		{tenOf(1000, 2000), []int64{45_000, 88_000}, 1000, false},
		{tenOf(1000, 2000), []int64{45_000, 90_000}, 1000, true},
	} {
		if got := c.demand.Plenty(costs, c.levels, c.life); got != c.want {
			t.Errorf("%v left of a life of %d ms: %v, want %v", c.levels, c.life, got, c.want)
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
		for range r.IntN(30) {
			now += r.Int64N(60)
			d.Asked(table.Costs(limits, r.Int64N(3)*700, r.Int64N(4)*900), life, now)
		}
		levels := []int64{r.Int64N(60_000) - 5000, r.Int64N(60_000) - 5000}
		left := map[string]int64{requests.Name: r.Int64N(8000), tokens.Name: r.Int64N(8000)}
		per := d.Requests(now) * float64(life)
		var wants [2]float64
		share := 1.
		for i, l := range limits {
			whole := d.Of(l.Name) * float64(life)
			wants[i] = max(0, min(.8*whole, .95*whole-float64(left[l.Name])))
			if half := max(0, float64(levels[i])/2); half < share*wants[i] {
				share = half / wants[i]
			}
		}
		var want [2]int64
		isShort := per >= 2 && .8*per*share < 1
		if per >= 2 && !isShort {
			for i := range want {
				want[i] = int64(wants[i]*share/1000) * 1000
			}
		}
		take, tooLittle := d.Size(table.Costs(limits), levels, func(limit string) int64 { return left[limit] }, life, now)
		got := [2]int64{}
		for i := range take {
			got[i] = take[i].Milli
		}
		if got != want || tooLittle != isShort || (take == nil) != (want == [2]int64{}) {
			t.Fatalf("run %d: %v of %v, short %v, want %v, %v", n, take, wants, tooLittle, want, isShort)
		}
		plenty := true
		for i, l := range limits {
			if need := .8 * d.Of(l.Name) * float64(life); need > 0 && need > float64(levels[i])/4 {
				plenty = false
			}
		}
		if p := d.Plenty(table.Costs(limits), levels, life); p != plenty {
			t.Fatalf("run %d: plenty %v", n, p)
		}
		switch {
		case take != nil:
			taken++
		case tooLittle:
			short++
		default:
			nothing++
		}
	}
	if min(taken, short, nothing) < 300 {
		t.Errorf("%d taken, %d short, %d times nothing: the random demands show little", taken, short, nothing)
	}
}

// Two requests in a life are busy: of a life of 900 ms, after a silence, three at once.
func TestBusy(t *testing.T) {
	d := &Demand{}
	for n, want := range []bool{false, false, false, true} {
		if got := d.Busy(900, 1000); got != want {
			t.Errorf("after %d requests: busy %v", n, got)
		}
		d.Asked(table.Costs([]bucket.Limit{requests}, 1000), 900, 1000)
	}
	if d.Busy(0, 1000) || d.Busy(900, 2000) {
		t.Error("busy without a life, or a second later")
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
