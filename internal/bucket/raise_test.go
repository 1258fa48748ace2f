package bucket

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func raised(l Limit, raises ...Raise) Limit { return l.WithRaises(FormOfRaises(raises)) }

// A rate of 600 a minute with a capacity of 1,000 is raised by 300 until nine: it refills ten a
// second, fifteen during the raise. The raise ends a second after nine, and cuts the level.
func TestARaiseOfARateEndsExactly(t *testing.T) {
	l := Limit{Name: "rpm", Capacity: 1000 * Milli, Amount: 600 * Milli, Period: 60_000}
	ends := nine + EdgeMargin
	s, i := alone(l, ends-10_000)
	s.Slots[i].Tokens = 900 * Milli
	s, changed := s.Adopt(raised(l, Raise{300, nine}))
	if got := s.Slots[i]; !changed || got.Capacity != 1500*Milli || got.Amount != 900*Milli || got.Tokens != 900*Milli {
		t.Fatalf("%v with %d: a raise adds no tokens at once", got.Limit, got.Tokens)
	}
	for after, want := range map[int64]int64{0: 900_000, 1000: 915_000, 9999: 1049_985, 10_000: 1000_000} {
		check.Equal(t, s.At(s.RF + after).Slots[i].Tokens, want, "after %d ms", after)
	}
	if got := s.Wait(i, 1050*Milli); got != Never { // 10 s at 15 a second, then the capacity is 1,000
		t.Errorf("1,050 in %d ms, want never", got)
	}
	s.Slots[i].Tokens = 0
	if got, want := s.Wait(i, 200*Milli), int64(10_000+5_000); got != want { // 150, then ten a second
		t.Errorf("200 in %d ms, want %d", got, want)
	}
	if over := s.At(ends); over.Slots[i].Capacity != l.Capacity || over.Slots[i].End != Never {
		t.Errorf("behind the end: %v", over.Slots[i])
	}
}

// A quota of 1,000 a day that is raised by 500 has 1,500 at once, and on each day of the raise. On
// the next day it has 1,000 again. Spent tokens stay spent.
func TestARaiseOfAQuotaEndsWithItsPeriod(t *testing.T) {
	const day = 24 * 3600_000
	l := Limit{Name: "q", Capacity: 1000 * Milli, Period: QuotaPeriod, Reset: "m0h9@UTC"}
	for _, shards := range []int{1, 2} {
		s := New([]Limit{l}, 0, 1, nine-day+EdgeMargin)
		if shards == 2 {
			s, _ = s.Split()
		}
		i, share := s.Index("q"), int64(Milli/shards)
		s.Slots[i].Tokens = 100 * share
		s, _ = s.Adopt(raised(l, Raise{500, nine + day}))
		for _, c := range []struct{ at, level int64 }{
			{nine - day + EdgeMargin, 600}, {nine + EdgeMargin - 1, 600}, {nine + EdgeMargin, 1500},
			{nine + day + EdgeMargin - 1, 1500}, {nine + day + EdgeMargin, 1000}, {nine + 9*day, 1000},
		} {
			at := s.At(c.at)
			level, _ := s.LevelAt(i, c.at)
			if got := at.Slots[i].Tokens; got != c.level*share || level != got {
				t.Errorf("%d of %d shards: %d, LevelAt %d, want %d", c.at-nine, shards, got, level, c.level*share)
			}
			if read := at.Slots[i].As(at.RF); read != at.Slots[i] {
				t.Errorf("%d: read as %+v, was %+v", c.at-nine, read, at.Slots[i])
			}
		}
		if w := s.Wait(i, 1200*share); w != day { // tomorrow has 1,500
			t.Errorf("1,200 in %d ms, want a day", w)
		}
		last := s.At(nine + EdgeMargin)
		check.Equal(t, last.Take([]int64{1400 * share, 0}).Wait(i, 1200*share), Never, "1,200 are never there again")
		s.Slots[i].End += 3600_000 // as stored by a process with other zone data
		if s, _ = s.Adopt(raised(l, Raise{700, nine})); s.Slots[i] != s.Slots[i].As(s.RF) {
			t.Errorf("it is read as %+v, and was %+v", s.Slots[i].As(s.RF), s.Slots[i])
		}
		whole, _ := New([]Limit{l}, 0, 1, nine).Adopt(raised(l, Raise{500, nine + day}))
		if shards == 1 && (whole.Slots[i].Tokens != 1500*Milli || whole.FullAt(nine) != nine) {
			t.Errorf("full: %v", whole)
		}
	}
}

// Random quotas with raises equal quotas whose limit is changed at each edge, and at the beginning
// of the raise. Splits and merges keep that.
func TestRaisedQuotasEqualChangesAtEachEdge(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		l := Limit{Name: "q", Capacity: 100 * Milli, Period: QuotaPeriod,
			Reset: []string{"m0@UTC", "m*/7@UTC", "m0h9@UTC"}[rnd.IntN(3)]}
		var raises []Raise
		for range rnd.IntN(4) {
			raises = append(raises, Raise{1 + rnd.Int64N(300), l.Next(nine + rnd.Int64N(1<<rnd.IntN(27)))})
		}
		plain := func(at int64) Limit {
			is := l
			for _, r := range raises {
				if r.End > at-EdgeMargin {
					is.Capacity += r.Tokens * Milli
				}
			}
			return is
		}
		now := nine + EdgeMargin
		a, b := New([]Limit{raised(l, raises...)}, 0, 1, now), New([]Limit{plain(now)}, 0, 1, now)
		for step := range 80 {
			to := now + rnd.Int64N(1<<rnd.IntN(23))
			for edge := l.Next(now - EdgeMargin); edge+EdgeMargin <= to; edge = l.Next(edge) {
				b, _ = b.At(edge + EdgeMargin).Adopt(plain(edge + EdgeMargin))
			}
			now = to
			a, b = a.At(now), b.At(now)
			if x, y := a.Slots[0], b.Slots[0]; x.Tokens != y.Tokens || x.Capacity != y.Capacity || x.End != y.End {
				t.Fatalf("seed %d, %s, %v, step %d: %v, by hand %v", seed, l.Reset, raises, step, a, b)
			}
			needs := []int64{rnd.Int64N(200_000), 0}
			v, w := a.Decide(needs, now), b.Decide(needs, now)
			check.MustEqual(t, v.Granted, w.Granted, "seed %d: %+v, by hand %+v", seed, v, w)
			if v.Granted {
				a, b = a.Take(needs), b.Take(needs)
			} else if most := a.Slots[0].Slowest().Capacity; v.At != Never && (needs[0] > most ||
				a.At(v.At).Slots[0].Tokens < needs[0] || a.At(v.At - 1).Slots[0].Tokens >= needs[0]) {
				t.Fatalf("seed %d: %+v", seed, v)
			}
			if rnd.IntN(8) == 0 {
				ka, ma := a.Split()
				kb, mb := b.Split()
				a, b = ka.Merge(ma, 1), kb.Merge(mb, 1)
			}
		}
	}
}

// An invalid raise is refused. No arithmetic overflows: parameters stop at the bounds of a limit.
func TestInvalidRaisesAreRefused(t *testing.T) {
	for _, bad := range []string{"5", ":5", "0:5", "-1:5", "5:0", "5:x", "x:5", "5:5+", "1000000000000001:5",
		"5:9223372036854775807", strings.Repeat("1:1+", MaxRaises) + "1:1"} {
		if got, err := ParseRaises(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
	form := FormOfRaises([]Raise{{200, 9}, {500, 7}})
	if got, err := ParseRaises(form); err != nil || !slices.Equal(got, []Raise{{500, 7}, {200, 9}}) ||
		form != "500:7+200:9" {
		t.Errorf("%q is read as %v, %v", form, got, err)
	}
	if got, err := ParseRaises(""); got != nil || err != nil {
		t.Errorf("no raises are read as %v, %v", got, err)
	}
	huge := Limit{Name: "x", Capacity: mostRaised, Amount: 1, Period: 1000}
	most := Raise{mostRaised / Milli, 9}
	for _, l := range []Limit{huge, {Name: "x", Capacity: mostRaised, Amount: mostRaised, Period: 1000},
		{Name: "x", Capacity: mostRaised, Period: QuotaPeriod, Reset: "m0@UTC"}} {
		got := raised(l, most, most).in(0)
		if got.Capacity != mostRaised || got.Amount != mostRaised && !got.Renews() {
			t.Errorf("%v is raised to %v", l, got)
		}
	}
	for _, l := range []Limit{{Name: "x", Capacity: 5, InFlight: true, Period: 5000},
		{Name: "x", Capacity: 5, Reset: "+60"}} {
		check.Equal(t, raised(l, most), l, "%v is raised", l)
	}
	l := scheduled(t, 60, 60, 60_000, "h9s500@UTC")
	with := raised(l, Raise{30, nine + 60_000})
	if with.Schedule() != l.Schedule() || with.Raises() == "" || with.WithRaises("") != l ||
		with.in(nine).Capacity != 60*Milli || with.in(nine+60_000).Capacity != 30*Milli || with.Own().Capacity != 60*Milli {
		t.Errorf("a schedule with a raise: %v", with)
	}
	if most := with.in(nine).Slowest(); most.Capacity != 90*Milli || most.Amount != 30*Milli {
		t.Errorf("the most is %v", most)
	}
}
