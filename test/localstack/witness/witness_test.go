package witness

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naive looks at every window there is, in exact rationals.
func naive(b Bound, events []Event) *big.Rat {
	worst := new(big.Rat).SetInt64(-b.Capacity)
	for _, x := range events {
		for _, y := range events {
			if x.Kind != Grant || y.Kind != Grant || x.Sent > y.Answered {
				continue
			}
			v := window(b, events, x.Sent, y.Answered)
			if v.Cmp(worst) > 0 {
				worst = v
			}
		}
	}
	return worst
}

func window(b Bound, events []Event, from, to int64) *big.Rat {
	var admitted, returned int64
	for _, e := range events {
		switch {
		case e.Kind == Grant && e.Sent >= from && e.Answered <= to:
			admitted += e.Tokens
		case e.Kind == Return && e.Sent <= to && e.Answered >= from:
			returned += e.Tokens
		}
	}
	v := new(big.Rat).SetInt64(admitted - returned - b.Capacity - surplus(b, events, from))
	return v.Sub(v, big.NewRat(b.Amount*(to-from), b.Period))
}

func surplus(b Bound, events []Event, at int64) int64 {
	best := int64(0)
	if !b.Kept {
		return 0
	}
	for _, x := range events {
		sum := int64(0)
		for _, e := range events {
			switch {
			case e.Kind == Return && e.Answered >= x.Answered && e.Answered < at:
				sum += e.Tokens
			case e.Kind == Grant && e.Sent >= x.Answered && e.Answered < at:
				sum -= e.Tokens
			}
		}
		if x.Kind == Return && x.Answered < at {
			best = max(best, sum)
		}
	}
	return best
}

// ceilMilli is the rounding of Result.Excess.
func ceilMilli(r *big.Rat) int64 {
	num := new(big.Int).Mul(r.Num(), big.NewInt(1000))
	q, m := new(big.Int).DivMod(num, r.Denom(), new(big.Int))
	if m.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

func TestWorstAgreesWithEveryWindowByHand(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 4000 {
		b := Bound{Capacity: rng.Int64N(30), Amount: rng.Int64N(20), Period: 1 + rng.Int64N(40), Kept: round%2 == 0}
		events := make([]Event, rng.IntN(14))
		for i := range events {
			sent := rng.Int64N(60)
			events[i] = Event{Kind: Kind(rng.IntN(2)), Sent: sent, Answered: sent + rng.Int64N(8), Tokens: rng.Int64N(12)}
		}
		got, err := Worst(b, events)
		if err != nil {
			t.Fatal(err)
		}
		if want := ceilMilli(naive(b, events)); got.Excess != want {
			t.Fatalf("round %d: Worst(%+v, %+v) = %v, by hand %d", round, b, events, got, want)
		}
		if got.Admitted > 0 {
			if v := ceilMilli(window(b, events, got.From, got.To)); v != got.Excess {
				t.Fatalf("round %d: the window %v has the excess %d by hand", round, got, v)
			}
		}
	}
}

// history plays an exact bucket and returns what a client sees of it, each
// answer up to 5 ms after the fact and each request up to 5 ms before.
func history(rng *rand.Rand, b Bound, n int) []Event {
	level, now := b.Capacity*b.Period, int64(1000)
	var out []Event
	seen := func(k Kind, tokens int64) Event {
		return Event{Kind: k, Sent: now - rng.Int64N(6), Answered: now + rng.Int64N(6), Tokens: tokens}
	}
	for len(out) < n {
		step := rng.Int64N(40)
		now += step
		if full := b.Capacity * b.Period; level < full {
			level = min(full, level+step*b.Amount)
		}
		want := 1 + rng.Int64N(b.Capacity/4+1)
		switch {
		case rng.IntN(8) == 0 && len(out) > 0:
			level += want * b.Period
			out = append(out, seen(Return, want))
		case level >= want*b.Period:
			level -= want * b.Period
			out = append(out, seen(Grant, want))
		}
	}
	return out
}

func TestAnExactBucketIsNeverAccused(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		b := Bound{Capacity: 1 + rng.Int64N(1000), Amount: 1 + rng.Int64N(1000), Period: 1 + rng.Int64N(60_000), Kept: true}
		if b.Amount*600 < b.Period {
			continue // would wait for ever
		}
		got, err := Worst(b, history(rng, b, 400))
		if err != nil || got.Excess > 0 {
			t.Fatalf("%+v: %v, %v", b, got, err)
		}
	}
}

func TestPlantedOverAdmissionIsCaught(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	b := Bound{Capacity: 1000, Amount: 600, Period: 60_000}
	// A saturated bucket: everything it refills is taken at once.
	honest := []Event{{Grant, 0, 1, 1000}}
	for now := int64(100); now < 60_000; now += 100 {
		honest = append(honest, Event{Grant, now - rng.Int64N(3), now + rng.Int64N(3), 1})
	}
	got, err := Worst(b, honest)
	if err != nil || got.Excess > 0 {
		t.Fatalf("honest: %v, %v", got, err)
	}
	for _, c := range []struct {
		name  string
		extra []Event
	}{
		{"a handful of tokens in the middle", []Event{{Grant, 30_010, 30_011, 5}}},
		{"the same tokens granted twice", []Event{{Grant, 0, 2, 1000}}},
		{"one token in a hundred places", func() (out []Event) {
			for i := range int64(100) {
				out = append(out, Event{Grant, 500 * i, 500*i + 2, 1})
			}
			return out
		}()},
	} {
		got, err := Worst(b, append(slices.Clone(honest), c.extra...))
		if err != nil || got.Excess <= 0 {
			t.Errorf("%s: %v, %v, want an excess", c.name, got, err)
		}
	}
}

func TestTokensReturnedToAFullBucket(t *testing.T) {
	events := []Event{{Grant, 0, 1, 10}, {Return, 5000, 5001, 10}, {Grant, 6000, 6001, 20}}
	for _, c := range []struct {
		kept bool
		want int64
	}{{false, 9_990}, {true, -10}} {
		b := Bound{Capacity: 10, Amount: 10, Period: 1000, Kept: c.kept}
		got, err := Worst(b, events)
		if err != nil || got.Excess != c.want {
			t.Errorf("kept %v: %v, %v, want %d", c.kept, got, err, c.want)
		}
	}
}

func TestLargeNumbersDoNotOverflow(t *testing.T) {
	b := Bound{Capacity: 1e15, Amount: 1e15, Period: 86_400_000}
	at := int64(1_700_000_000_000)
	events := []Event{{Grant, at, at, 1e15}, {Grant, at + 86_400_000, at + 86_400_000, 1e15}}
	if got, err := Worst(b, events); err != nil || got.Excess != 0 {
		t.Errorf("%v, %v, want exactly 0", got, err)
	}
	events = append(events, Event{Grant, at, at + 1, 1})
	if got, err := Worst(b, events); err != nil || got.Excess != 1000 {
		t.Errorf("%v, %v, want exactly one token", got, err)
	}
}

func TestNonsenseIsNamed(t *testing.T) {
	good := Bound{Capacity: 1, Amount: 1, Period: 1}
	for _, c := range []struct {
		name  string
		b     Bound
		e     []Event
		wants string
	}{
		{"no period", Bound{Capacity: 1, Amount: 1}, nil, "period"},
		{"answered before sent", good, []Event{{Grant, 2, 1, 1}}, "sent at 2"},
		{"negative tokens", good, []Event{{Grant, 1, 1, -1}}, "-1 tokens"},
		{"unknown kind", good, []Event{{Kind(7), 1, 1, 1}}, "kind 7"},
	} {
		if _, err := Worst(c.b, c.e); err == nil || !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.wants)
		}
	}
}

func BenchmarkWorst(b *testing.B) {
	events := history(rand.New(rand.NewPCG(7, 8)), Bound{Capacity: 1000, Amount: 1000, Period: 1000}, 100_000)
	for b.Loop() {
		if _, err := Worst(Bound{Capacity: 1000, Amount: 1000, Period: 1000, Kept: true}, events); err != nil {
			b.Fatal(err)
		}
	}
}
