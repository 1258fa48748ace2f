package bucket

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// nine is 9:00 UTC on a Monday.
var nine = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMilli()

func scheduled(t testing.TB, capacity, amount, period int64, form string) Limit {
	t.Helper()
	l, err := Limit{Name: "rpm", Capacity: capacity * Milli, Amount: amount * Milli, Period: period}.WithSchedule(form)
	check.Must(t, err)
	return l
}

// A limit of 60 a minute, and from nine to five 600 a minute with a capacity of 120. The table has
// the level of an idle bucket, and the wait for 100 tokens, from a second before the limit changes
// to a second after.
func TestLevelsFollowTheirSchedule(t *testing.T) {
	l := scheduled(t, 60, 60, 60_000, "h9-16c120a600@UTC")
	nine := nine + EdgeMargin
	five := nine + 8*3600_000
	for _, c := range []struct {
		at      int64 // the instant of the level
		level   int64
		after   int64 // ms
		want    int64
		wait100 int64 // from at
	}{
		{nine - 1000, 10, 500, 10_500, 9900},  // one a second; 100 exceed the capacity until nine
		{nine - 1000, 10, 1000, 11_000, 9900}, // a larger capacity begins with the present level
		{nine - 1000, 10, 2000, 21_000, 9900}, // and fills at ten a second
		{nine - 1000, 60, 1000, 60_000, 5000},
		{nine - 1000, 60, 60_000, 120_000, 5000},
		{nine, 10, 9000, 100_000, 9000},
		{five - 1000, 100, 999, 109_990, 0},
		{five - 1000, 100, 1000, 60_000, 0},                 // a smaller capacity cuts the level
		{five - 1000, 40, 2000, 51_000, 16*3600_000 + 5000}, // not before the next day
		{five - 1000, -20, 3000, -8_000, 16*3600_000 + 5000},
	} {
		s, i := alone(l, c.at)
		s.Slots[i].Tokens = c.level * Milli
		check.Equal(t, s.At(c.at + c.after).Slots[i].Tokens, c.want,
			"%d of %v: after %d ms", c.level, s.Slots[i].Limit, c.after)
		if got, _ := s.LevelAt(i, c.at+c.after); got != c.want {
			t.Errorf("%d: LevelAt is %d after %d ms, want %d", c.level, got, c.after, c.want)
		}
		check.Equal(t, s.Wait(i, 100*Milli), c.wait100, "%d of %v: 100 in ms", c.level, s.Slots[i].Limit)
	}
}

// The parameters in a window are those of the Python client, which scales in floating point and
// rounds down.
func TestParametersInForce(t *testing.T) {
	for form, want := range map[string][3]int64{
		"s500@UTC": {50_000, 5000, 60_000}, "s290@UTC": {28_999, 2900, 60_000}, "s1@UTC": {100, 10, 60_000},
		"c7@UTC": {7000, 10_000, 60_000}, "a3p10@UTC": {100_000, 3000, 10_000}, "h8s500@UTC": {100_000, 10_000, 60_000},
		"h9c5;s500@UTC": {5000, 10_000, 60_000},
	} {
		l := scheduled(t, 100, 10, 60_000, form)
		if is := l.in(nine); [3]int64{is.Capacity, is.Amount, is.Period} != want {
			t.Errorf("%s: %v, want %v", form, is, want)
		} else if own := is.Own(); own != l || own.Capacity != 100_000 || is.Schedule() != form {
			t.Errorf("%s: its own parameters are %v, its schedule %q", form, own, is.Schedule())
		}
	}
	tiny := Limit{Name: "x", Capacity: 5, Amount: 5, Period: 1000}
	tiny, _ = tiny.WithSchedule("s1@UTC")
	if is := tiny.in(nine); is.Capacity != 1 || is.Amount != 1 {
		t.Errorf("%v, want a millitoken", is)
	}
	huge := Limit{Name: "x", Capacity: 1 << 61, Amount: 1, Period: 1000}
	huge, _ = huge.WithSchedule("s1000000@UTC")
	if is := huge.in(nine); is.Capacity != 1<<62 || is.Amount != 1000 {
		t.Errorf("%v, want what 64 bits hold", is)
	}
	if _, err := tiny.WithSchedule("h9@UTC"); err == nil {
		t.Error("a window without parameters is one")
	}
}

// A bucket with a schedule and raises equals a bucket whose limit is changed at each edge. Random
// takes and looks give the same levels, also with held tokens, and after splits and merges.
func TestSchedulesEqualChangesAtEachEdge(t *testing.T) {
	for seed := range uint64(80) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
		form := pick("m0-9", "m*/7", "h9", "m30-59", "w1") + pick("s500", "s3000", "c20", "a7p3", "c90a300p7")
		if rnd.IntN(2) == 0 {
			form += ";" + pick("m5-20", "h10", "") + pick("s10", "c5", "c500a1")
		}
		form += "@UTC"
		schedule, _ := calendar.ParseSchedule(form)
		if rnd.IntN(6) == 0 {
			form = ""
		}
		l := scheduled(t, 100, 50, 60_000, form)
		now := nine - rnd.Int64N(3600_000)
		var raises []Raise
		for range max(rnd.IntN(5)-1, 0) {
			raises = append(raises, Raise{1 + rnd.Int64N(1<<rnd.IntN(9)), now + rnd.Int64N(1<<rnd.IntN(27))})
		}
		own := l
		l = l.WithRaises(FormOfRaises(raises))
		plain := func(at int64) Limit { // from the windows and the raises
			is := own
			if form != "" {
				is = own.changed(schedule.At(at - EdgeMargin))
			}
			sum := big.NewInt(0)
			for _, r := range raises {
				if at < r.End+EdgeMargin {
					sum.Add(sum, big.NewInt(r.Tokens*Milli))
				}
			}
			by := new(big.Int).Mul(big.NewInt(is.Capacity), sum)
			is.Capacity += by.Div(by, big.NewInt(is.Amount)).Int64()
			is.Amount += sum.Int64()
			is.Plan = ""
			return is
		}
		a, b := New([]Limit{l}, 0, 1, now), New([]Limit{plain(now)}, 0, 1, now)
		i := a.Index("rpm")
		for step := range 60 {
			to := now + rnd.Int64N(1<<rnd.IntN(23))
			var edges []int64 // windows have edges on the minute, raises anywhere
			for m := (now-EdgeMargin)/60_000*60_000 + 60_000 + EdgeMargin; m <= to; m += 60_000 {
				edges = append(edges, m)
			}
			for _, r := range raises {
				if m := r.End + EdgeMargin; m > now && m <= to {
					edges = append(edges, m)
				}
			}
			slices.Sort(edges)
			for _, m := range edges {
				if plain(m) != plain(m-1) {
					b, _ = b.At(m).Adopt(plain(m))
				}
			}
			now = to
			x, rest := a.LevelAt(i, now)
			a, b = a.At(now), b.At(now)
			got, want := a.Slots[i], b.Slots[i]
			if got.Tokens != want.Tokens || got.Rest != want.Rest || got.Limit.with(Limit{}) != l.with(Limit{}) ||
				got.Capacity != want.Capacity || got.Amount != want.Amount || x != got.Tokens || rest != got.Rest {
				t.Fatalf("seed %d, %s, step %d: %v with %d, by hand %v with %d", seed, form, step, a, got.Rest, b, want.Rest)
			}
			if got.Tokens > a.Rate(i).Capacity {
				t.Fatalf("seed %d, %s: %v is above its capacity", seed, form, a)
			}
			cost := rnd.Int64N(60_000)
			needs := []int64{cost, 0}
			v, w := a.Decide(needs, now), b.Decide(needs, now)
			check.MustEqual(t, v.Granted, w.Granted, "seed %d, %s: %+v, by hand %+v", seed, form, v, w)
			if most := l.Slowest().Capacity; !v.Granted && (v.At == Never) != (cost > most) {
				t.Fatalf("seed %d, %s: %+v of %d, it never holds more than %d", seed, form, v, cost, most)
			} else if then := a.At(v.At); !v.Granted && v.At < now+24*3600_000 &&
				(then.Slots[i].Tokens < cost || a.At(v.At - 1).Slots[i].Tokens >= cost) {
				t.Fatalf("seed %d, %s: %d at %d, when there are %d", seed, form, cost, v.At, then.Slots[i].Tokens)
			}
			if v.Granted {
				a, b = a.Take(needs), b.Take(needs)
			}
			switch held := rnd.Int64N(20_000); rnd.IntN(8) {
			case 0:
				for _, s := range []*State{&a, &b} {
					s.Slots = slices.Clone(s.Slots)
					s.Slots[i].Held, s.HeldUntil = held, now+20_000
				}
			case 1:
				if a.Count() == 1 {
					ka, ma := a.Split()
					kb, mb := b.Split()
					if ka.Slots[i].Tokens != kb.Slots[i].Tokens || ma.Slots[i].Tokens != mb.Slots[i].Tokens {
						t.Fatalf("seed %d: split into %v and %v, by hand %v and %v", seed, ka, ma, kb, mb)
					}
					a, b = ka.Merge(ma, 1), kb.Merge(mb, 1)
				}
			}
		}
	}
}

// A state may be idle for more edges than are ever passed. Later edges then add nothing, and cost
// no time.
func TestPassedEdgesAreBounded(t *testing.T) {
	l := scheduled(t, 100, 1, 3600_000_000, "m*/2c90@UTC")
	s, i := one(l, nine, 0)
	later := nine + 2*mostEdges*60_000
	if got := s.At(later); got.RF != later || got.Slots[i].Tokens != mostEdges/60 ||
		got.Slots[i].Limit != l.InForce(later) {
		t.Errorf("%v, want %d millitokens of 1000 hours each", got, mostEdges/60)
	}
}

// Zone and clock are the item's. If the clock is missing or far ahead, the current limit is in
// force.
func TestBrokenClocksUseTheCurrentLimit(t *testing.T) {
	l, nine := scheduled(t, 60, 60, 60_000, "h9c5@UTC"), nine+EdgeMargin
	for name, s := range map[string]State{"none": {NoClock: true}, "ahead": {RF: nine + 10*3600_000}} {
		s.Slots = []Slot{Slot{Limit: l, Tokens: 60_000}.As(s.RF)}
		if got := s.At(nine); got.RF != nine || got.Slots[0].Limit != l.InForce(nine) || got.Slots[0].Tokens != 5000 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// In the second after an edge that also ends a quota, a state is stored as of an instant before the
// edge, and reads back unchanged.
func TestStatesAfterAnEdgeAreReadBack(t *testing.T) {
	day := Limit{Name: "day", Capacity: 9000, Reset: "m0h9@UTC", Period: QuotaPeriod}
	for _, form := range []string{"h9c120a600@UTC", "h9c5a1@UTC", "h9a700p7@UTC"} {
		for _, after := range []int64{0, 1, 500, 999} {
			s := New([]Limit{scheduled(t, 60, 60, 60_000, form), day}, 0, 1, nine-1000)
			i := s.Index("rpm")
			s.Slots[i].Tokens = 3000
			at := s.At(nine + after)
			stored := at.Stored()
			if stored.RF != nine-1 || stored.Slots[i].Limit != s.Slots[i].Limit {
				t.Fatalf("%s: stored as %v", form, stored)
			}
			read := stored
			read.Slots = slices.Clone(stored.Slots)
			read.Slots[i] = read.Slots[i].As(stored.RF)
			if again := read.At(nine + after); !slices.Equal(again.Slots, at.Slots) {
				t.Errorf("%s after %d ms: %v, stored %v, read as %v", form, after, at, stored, again)
			}
			if edge, ok := at.NextEdge(); !ok || edge != nine { // the period before goes on for a second
				t.Errorf("the next edge is %d, want %d", edge, nine)
			}
		}
	}
}

// Bounds that must hold at any time use the largest and the smallest values of a schedule.
func TestTheExtremesOfASchedule(t *testing.T) {
	l := scheduled(t, 60, 60, 60_000, "h9c120a6;w1c2a600p10@UTC").InForce(nine)
	if most, slow, least := l.Most(), l.Slowest(), l.least(); most.Capacity != 120_000 || most.Amount != 600_000 ||
		most.Period != 60_000 || slow.Capacity != 120_000 || slow.Amount != 6000 || slow.Period != 60_000 ||
		least.Capacity != 2000 || least.Amount != 6000 {
		t.Errorf("%v, %v, %v", most, slow, least)
	}
	s := New([]Limit{l}, 0, 1, nine)
	if !s.CanSplit(2) || s.CanSplit(1) || s.Holds(4, nil) {
		t.Error("a share has a token in each window")
	}
	s.Slots[s.Index("rpm")].Tokens = 0
	check.Equal(t, s.FullAt(nine), nine+120*10_000, "full at : as slowly as the largest fills")
	check.Equal(t, s.TTLSeconds(7), 7*1200, "it lives for s")
	check.Equal(t, fmt.Sprint(Limit{Name: "x"}.Most()), fmt.Sprint(Limit{Name: "x"}),
		"a limit without a schedule is what it is")
}

// A drain to an instant after an edge takes away the refill of each rate until then.
func TestDrainsCountEachRateOfASchedule(t *testing.T) {
	s, i := alone(scheduled(t, 60, 60, 60_000, "h9c120a600@UTC"), nine-10_000)
	for _, until := range []int64{nine - 5000, nine + 5000, nine + 2*3600_000} {
		drained := s.Give(s.Drains(until))
		check.Equal(t, drained.At(until).Slots[i].Tokens, 0, "until %d: left", until-nine)
	}
}
