package loadcheck

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// always returns the rules of a limit that does not change.
func always(capacity, amount, period int64) []Rule {
	return []Rule{{To: maxSpan, Capacity: capacity, Amount: amount, Period: period}}
}

// naive checks every window in exact rationals.
func naive(b Bound, events []Event) *big.Rat {
	worst := new(big.Rat).SetInt64(-1 << 40)
	for at := int64(0); at < 100; at++ {
		if c, _ := allowed(b, at); new(big.Rat).SetInt64(-c).Cmp(worst) > 0 {
			worst.SetInt64(-c)
		}
	}
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

// allowed returns the capacity, and the refill of a millisecond, of the rules that may be in force
// at an instant.
func allowed(b Bound, at int64) (capacity int64, refill *big.Rat) {
	refill = new(big.Rat)
	for _, r := range b.Rules {
		if r.From-b.Skew <= at && at <= r.To+b.Skew {
			capacity = max(capacity, r.Capacity)
			if rate := big.NewRat(r.Amount, r.Period); rate.Cmp(refill) > 0 {
				refill = rate
			}
		}
	}
	return capacity, refill
}

// counted returns the tokens that count in a window.
func counted(events []Event, from, to int64) (admitted, returned int64) {
	for _, e := range events {
		switch {
		case e.Kind == Grant && e.Sent >= from && e.Answered <= to:
			admitted += e.Tokens
		case e.Kind == Return && e.Sent <= to && e.Answered >= from:
			returned += e.Tokens
		case e.Kind == Passing && e.Sent <= from && from <= e.Answered:
			returned += e.Tokens
		}
	}
	return admitted, returned
}

func window(b Bound, events []Event, from, to int64) *big.Rat {
	admitted, returned := counted(events, from, to)
	v, capacity := new(big.Rat), int64(0)
	for at := from; at < to+b.Skew; at++ {
		_, refill := allowed(b, at)
		v.Sub(v, refill)
	}
	for at := from; at <= to; at++ {
		c, _ := allowed(b, at)
		capacity = max(capacity, c)
	}
	return v.Add(v, new(big.Rat).SetInt64(admitted-returned-capacity-surplus(b, events, from)))
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
			case e.Kind == Return && e.Answered >= x.Answered && e.Answered < at,
				e.Kind == Passing && e.Sent <= x.Answered && e.Answered >= x.Answered && e.Answered < at:
				sum += e.Tokens
			case e.Kind == Grant && e.Sent >= x.Answered && e.Answered < at:
				sum -= e.Tokens
			}
		}
		if x.Kind != Grant && x.Answered < at {
			best = max(best, sum)
		}
	}
	return best
}

// ceilMilli rounds like Result.Excess.
func ceilMilli(r *big.Rat) int64 {
	num := new(big.Int).Mul(r.Num(), big.NewInt(1000))
	q, m := new(big.Int).DivMod(num, r.Denom(), new(big.Int))
	if m.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// randomBound has up to four rules. The first is always in force.
func randomBound(rng *rand.Rand, round int) Bound {
	b := Bound{Kept: round%2 == 0, Skew: max(0, rng.Int64N(12)-6)}
	for range 1 + round%4 {
		from := rng.Int64N(60)
		b.Rules = append(b.Rules, Rule{From: from, To: from + rng.Int64N(30),
			Capacity: rng.Int64N(30), Amount: rng.Int64N(20), Period: 1 + rng.Int64N(40)})
	}
	b.Rules[0].From, b.Rules[0].To = 0, maxSpan
	return b
}

func TestWorstEqualsACheckOfEveryWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 4000 {
		b := randomBound(rng, round)
		events := make([]Event, rng.IntN(14))
		for i := range events {
			sent := rng.Int64N(60)
			events[i] = Event{Kind: Kind(rng.IntN(3)), Sent: sent, Answered: sent + rng.Int64N(8), Tokens: rng.Int64N(12)}
		}
		got, err := Worst(b, events)
		check.Must(t, err)
		if want := ceilMilli(naive(b, events)); got.Excess != want {
			t.Fatalf("round %d: Worst(%+v, %+v) = %v, by hand %d", round, b, events, got, want)
		}
		if got.Admitted > 0 {
			check.MustEqual(t, ceilMilli(window(b, events, got.From, got.To)), got.Excess,
				"round %d: the window %v has the excess by hand", round, got)
			if in, out := counted(events, got.From, got.To); in != got.Admitted || out != got.Returned {
				t.Fatalf("round %d: in the window %v %d are admitted and %d returned", round, got, in, out)
			}
		}
	}
}

func TestLargeNumbersDoNotOverflow(t *testing.T) {
	b := Bound{Rules: always(1e15, 1e15, 86_400_000)}
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

func TestInvalidInputsAreNamed(t *testing.T) {
	good := Bound{Rules: always(1, 1, 1)}
	for _, c := range []struct {
		name  string
		b     Bound
		e     []Event
		wants string
	}{
		{"no period", Bound{Rules: always(1, 1, 0)}, nil, "period"},
		{"negative skew", Bound{Skew: -1}, nil, "skew -1"},
		{"more skew than time", Bound{Skew: 1<<48 + 1}, nil, "skew 281474976710657"},
		{"negative capacity", Bound{Rules: always(-1, 1, 1)}, nil, "Capacity:-1"},
		{"enormous capacity", Bound{Rules: always(1<<53+1, 1, 1)}, nil, "capacity and amount of 0 to 2^53"},
		{"negative refill", Bound{Rules: always(1, -1, 1)}, nil, "Amount:-1"},
		{"enormous refill", Bound{Rules: always(1, 1<<53+1, 1)}, nil, "capacity and amount of 0 to 2^53"},
		{"enormous period", Bound{Rules: always(1, 1, 1<<48+1)}, nil, "a period of 1 to 2^48 ms"},
		{"a rule before time", Bound{Rules: []Rule{{From: -1, To: 1, Period: 1}}}, nil, "0 <= from"},
		{"a rule after time", Bound{Rules: []Rule{{To: 1<<48 + 1, Period: 1}}}, nil, "to <= 2^48"},
		{"too many events", good, make([]Event, maxEvents+1), "16777217 events, want at most 16777216"},
		{"a rule that ends before it begins", Bound{Rules: []Rule{{From: 2, To: 1, Period: 1}}}, nil, "from <= to"},
		{"periods without a common multiple", Bound{Rules: []Rule{{Period: 1<<40 + 1}, {Period: 1<<40 - 1}}}, nil,
			"common"},
		{"a common multiple of 2^50 - 1", Bound{Rules: []Rule{{Period: 1<<25 + 1}, {Period: 1<<25 - 1}}}, nil, "common"},
		{"a common multiple of 2^64 + 2^32", Bound{Rules: []Rule{{Period: 1 << 32}, {Period: 1<<32 + 1}}}, nil, "common"},
		{"a refill that cannot be counted", Bound{Rules: []Rule{{To: 1, Amount: 1 << 53, Period: 1}, {To: 1,
			Period: 1 << 47}}}, nil,
			"refills too much"},
		{"a refill of 2^64", Bound{Rules: []Rule{{To: 1, Amount: 1 << 53, Period: 1}, {To: 1, Period: 1 << 11}}}, nil,
			"refills too much"},
		{"a refill of 2^62", Bound{Rules: []Rule{{To: 1, Amount: 1 << 53, Period: 1}, {To: 1, Period: 1 << 9}}}, nil,
			"refills too much"},
		{"a rule that ends too early", Bound{Rules: []Rule{{To: 4, Period: 1}}}, []Event{{Grant, 1, 5, 1}},
			"no rule is in force at 5"},
		{"a rule that ended before", Bound{Rules: []Rule{{To: 4, Period: 1}, {From: 20, To: 30, Period: 1}}},
			[]Event{{Grant, 10, 25, 1}}, "no rule is in force at 10"},
		{"a rule that begins too late", Bound{Rules: []Rule{{From: 2, To: 4, Period: 1}}}, []Event{{Grant, 1, 3, 1}},
			"no rule is in force at 1"},
		{"no rule", Bound{}, []Event{{Grant, 1, 2, 1}}, "no rule is in force at 1"},
		{"no rule for a while", Bound{Rules: []Rule{{To: 4, Period: 1}, {From: 6, To: 9, Period: 1}}},
			[]Event{{Grant, 1, 2, 1}, {Grant, 7, 8, 1}}, "no rule is in force at 5"},
		{"answered before sent", good, []Event{{Grant, 2, 1, 1}}, "sent at 2"},
		{"negative tokens", good, []Event{{Grant, 1, 1, -1}}, "-1 tokens"},
		{"enormously many tokens", good, []Event{{Grant, 1, 1, 1<<53 + 1}}, "9007199254740993 tokens"},
		{"before time", good, []Event{{Grant, -1, 1, 1}}, "sent at -1"},
		{"after time", good, []Event{{Grant, 1, 1 << 48, 1}}, "answered at 281474976710656"},
		{"unknown kind", good, []Event{{Kind(7), 1, 1, 1}}, "kind 7"},
		{"negative kind", good, []Event{{Kind(-1), 1, 1, 1}}, "kind -1"},
	} {
		check.Says(t, check.Err(Worst(c.b, c.e)), c.wants, "%s", c.name)
	}
}

// The largest accepted numbers can be computed.
func TestTheLargestNumbersCanBeComputed(t *testing.T) {
	for name, b := range map[string]Bound{
		"numbers": {Rules: []Rule{{To: maxSpan, Capacity: maxTokens, Amount: maxTokens, Period: 1}}, Skew: maxSpan},
		"period":  {Rules: always(maxTokens, 1, maxSpan)},
		"refill":  {Rules: []Rule{{To: maxSpan, Amount: 7e15, Capacity: maxTokens, Period: 1}, {To: 1, Period: 1 << 9}}},
	} {
		got, err := Worst(b, []Event{{Grant, maxSpan - 1, maxSpan - 1, maxTokens}})
		if err != nil || got.Excess > 0 || got.Admitted > maxTokens {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Without a grant, the empty window is the worst, and the smallest capacity is left.
func TestWithoutGrantsTheCapacityIsLeft(t *testing.T) {
	b := Bound{Rules: []Rule{{To: 9, Capacity: 7, Period: 1}, {From: 10, To: 19, Capacity: 5, Period: 1},
		{From: 20, To: 29, Capacity: 6, Period: 1}}}
	events := []Event{{Return, 1, 2, 3}, {Passing, 2, 3, 1}}
	if got, err := Worst(b, events); err != nil || got != (Result{Excess: -5000}) {
		t.Errorf("%v, %v, want 5 tokens left", got, err)
	}
	if got, err := Worst(Bound{}, nil); err != nil || got != (Result{}) {
		t.Errorf("without rules: %v, %v", got, err)
	}
}

// A fraction of a token counts as one token of excess.
func TestFractionsOfATokenCountAsOne(t *testing.T) {
	for excess, want := range map[int64]int64{-1500: 0, -1: 0, 0: 0, 1: 1, 1000: 1, 1001: 2, 1_001_000: 1001} {
		check.Equal(t, (Result{Excess: excess}).Over(), want, "%d millitokens over", excess)
	}
}
