package bucket

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// What is given fills a rate up, and no more: a full one gets nothing, and one whose capacity
// was lowered below its level keeps it.
func TestGiftsFillARateUp(t *testing.T) {
	rate := Limit{Name: "rpm", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 60_000}
	for _, c := range []struct {
		level int64
		gift  Gift
		want  int64
	}{
		{10_000, Gift{Milli: 5000}, 10_000},
		{10_000, Gift{Whole: true}, 10_000},
		{12_000, Gift{Milli: 5000}, 12_000},
		{12_000, Gift{Whole: true}, 12_000},
		{8000, Gift{Milli: 500}, 8500},
		{8000, Gift{Milli: 5000}, 10_000},
		{-3000, Gift{Whole: true}, 10_000},
	} {
		s, i := one(rate, 0, c.level)
		if got := s.Give(map[string]Gift{"rpm": c.gift}).Slots[i].Tokens; got != c.want {
			t.Errorf("%+v to a level of %d: %d, want %d", c.gift, c.level, got, c.want)
		}
	}
}

// Quotas may be topped up above their capacity, until their period ends. One from the first use
// begins with it; making it whole begins another period, in which what was taken before does
// not count.
func TestGiftsToQuotas(t *testing.T) {
	first := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "+3600"}
	s, i := alone(first, 1000)
	got := s.Give(map[string]Gift{"q": {Milli: 5000}}).Slots[i]
	if got.Tokens != 15_000 || got.Extra != 5000 || got.End != 3_601_000 {
		t.Errorf("topped up before its first use: %+v", got)
	}
	s.Slots[i].Tokens, s.Slots[i].End = 4000, 3_601_000
	if got = s.Give(map[string]Gift{"q": {Whole: true}}).Slots[i]; got.Tokens != 10_000 || got.End != 3_601_001 {
		t.Errorf("made whole: %+v, want a period that ends at another instant", got)
	}
	monthly := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	s = New([]Limit{monthly}, 0, 1, 1000)
	s.Slots[i].Tokens = 4000
	if got = s.Give(map[string]Gift{"q": {Whole: true}}).Slots[i]; got.Tokens != 10_000 || got.Resets != 1 {
		t.Errorf("made whole: %+v", got)
	}
}

// A limit is full without what was topped up. What ended unspent was not spent.
func TestFullAndSpent(t *testing.T) {
	s, i := alone(Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}, 1000)
	for _, c := range []struct {
		tokens, extra int64
		want          bool
	}{{10_000, 0, true}, {9999, 0, false}, {15_000, 5000, false}, {10_000, 5000, false}} {
		if s.Slots[i].Tokens, s.Slots[i].Extra = c.tokens, c.extra; s.Full(i) != c.want {
			t.Errorf("%+v: not %v", c, c.want)
		}
	}
	if got := (Slot{Used: 12, Ended: 5}).Spent(); got != 7 {
		t.Errorf("%d of 12 were spent, of which 5 ended unspent", got)
	}
}

// A refill instant that is ahead stays if clocks may differ by that; a later one is of no sound
// clock, and now takes its place.
func TestClock(t *testing.T) {
	for _, c := range []struct {
		rf, from, to int64
		none         bool
	}{
		{rf: 900, from: 900, to: 1000}, {rf: 1000 + MaxSkew, from: 1000 + MaxSkew, to: 1000 + MaxSkew},
		{rf: 1001 + MaxSkew, from: 1000, to: 1000}, {rf: 900, none: true, from: 1000, to: 1000},
	} {
		if from, to := (State{RF: c.rf, NoClock: c.none}).clock(1000); from != c.from || to != c.to {
			t.Errorf("%+v: from %d to %d", c, from, to)
		}
	}
}

// The smallest gift to a quota begins its period; none, or one that takes away, does not.
func TestGiftsThatBeginAPeriod(t *testing.T) {
	first := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "+3600"}
	for _, c := range []struct{ gift, level, end int64 }{{1, 10_001, 3_601_000}, {0, 10_000, 0}, {-5, 10_000, 0}} {
		s := New([]Limit{first}, 0, 1, 1000)
		got := s.Give(map[string]Gift{"q": {Milli: c.gift}}).Slots[s.Index("q")]
		if got.Tokens != c.level || got.End != c.end {
			t.Errorf("a gift of %d: %d until %d", c.gift, got.Tokens, got.End)
		}
		if s.Slots[s.Index("q")].Tokens != 10_000 {
			t.Error("the state itself was changed")
		}
	}
}

// A gift leaves a quota by the calendar to its calendar, also one that does not say yet when its
// period ends: that is at the edge, not now.
func TestGiftsLeaveTheCalendar(t *testing.T) {
	s, i := alone(Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}, 1000)
	want := s.PeriodEnd()
	s.Slots[i].End = 0
	if got := s.Give(map[string]Gift{"q": {Milli: 5000}}); want == 0 || got.PeriodEnd() != want {
		t.Errorf("its period ends at %d, want %d", got.PeriodEnd(), want)
	}
}

// What is given to a quota leaves its period as it is, once that has begun.
func TestGiftsLeaveThePeriod(t *testing.T) {
	for _, reset := range []string{"+3600", "m0h0D1@UTC"} {
		s, i := alone(Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: reset}, 1000)
		s.Slots[i].End = 77_000
		if got := s.Give(map[string]Gift{"q": {Milli: 5000}}).Slots[i]; got.End != 77_000 || got.Tokens != 15_000 {
			t.Errorf("%s: %d until %d", reset, got.Tokens, got.End)
		}
	}
}

// A drained rate holds nothing at the instant, and nothing before: what refills until then is taken away in
// advance. What is lower by then as it is stays.
func TestDrainsTakeWhatThereWouldBe(t *testing.T) {
	rate := Limit{Name: "rpm", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 10_000} // 1 per second
	for _, c := range []struct {
		level, until, want int64
	}{
		{10_000, 20_000, -20_000}, // full
		{4000, 20_000, -20_000},
		{-19_999, 20_000, -20_000}, // it would hold a millitoken by then
		{-20_000, 20_000, -20_000}, // drained already
		{-20_001, 20_000, -20_001},
		{-20_000, 30_000, -30_000}, // the later instant counts
		{-20_000, 5_000, -20_000},  // the earlier one does not
		{10_000, 1, -1},
	} {
		s, i := one(rate, 0, c.level)
		s = s.Give(s.Drains(c.until))
		if got := s.Slots[i].Tokens; got != c.want {
			t.Errorf("a level of %d until %d: %d, want %d", c.level, c.until, got, c.want)
		}
		if again := s.Drains(c.until); len(again) > 0 {
			t.Errorf("a level of %d until %d: drained twice, by %v", c.level, c.until, again)
		}
	}
}

// Only what refills and denies is drained.
func TestDrainsLeaveOtherKindsAlone(t *testing.T) {
	rate := Limit{Name: "rpm", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 60_000}
	soft, boundless := rate, rate
	soft.Name, soft.Soft = "soft", true
	boundless.Name, boundless.Amount, boundless.Period = "unlimited", 1_000_000_000_000_000_000, 1000
	s := New([]Limit{rate, soft, boundless,
		{Name: "month", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"},
		{Name: "jobs", Capacity: 10 * Milli, Period: 60_000, InFlight: true}}, 0, 1, 0)
	if got := s.Drains(60_000); len(got) != 1 || got["rpm"].Milli != -20_000 {
		t.Errorf("drained %v, want rpm alone, by 20 tokens", got)
	}
}

// By steps of a millisecond and with fractions as they are, a drained shard holds nothing before the instant,
// less than a millitoken at the instant, and refills from there as a bucket does that somebody has emptied.
// Halves of it, from a split at any time, do the same, and so do two halves that merge.
func TestDrainsToTheMillisecond(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 40))
	for range 3000 {
		l := Limit{Name: "rpm", Capacity: 1 + rng.Int64N(50*Milli), Amount: 1 + rng.Int64N(50*Milli)}
		l.Period = 1 + rng.Int64N(90_000)
		shards := 1 << rng.IntN(3)
		s := New([]Limit{l}, rng.IntN(shards), shards, 1000)
		i := s.Index("rpm")
		s.Slots[i].Tokens -= rng.Int64N(60 * Milli)
		if s.Slots[i].Tokens < s.Rate(i).Capacity {
			s.Slots[i].Rest = rng.Int64N(l.Period)
		}
		until := s.RF + 1 + rng.Int64N(120_000)
		before, _ := s.LevelAt(i, until)
		uncapped := exactly(s.Slots[i].Tokens, s.Slots[i].Rest, s.Rate(i), until-s.RF)
		s = s.Give(s.Drains(until))
		at := exactly(s.Slots[i].Tokens, s.Slots[i].Rest, s.Rate(i), until-s.RF)
		if uncapped.Cmp(big.NewRat(1, 1)) < 0 { // nothing to take
			if at.Cmp(uncapped) != 0 {
				t.Fatalf("%v until %d: at %s by then, was %s", l, until, at, uncapped)
			}
		} else if at.Sign() < 0 || at.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("%v until %d: at %s by then, and %d before it was drained", l, until, at, before)
		}
		for _, e := range []int64{0, rng.Int64N(until - s.RF), until - s.RF - 1, until - s.RF} {
			if now := s.At(s.RF + e); now.Slots[i].Tokens > 0 {
				t.Fatalf("%v until %d: %d at %d", l, until, now.Slots[i].Tokens, s.RF+e)
			}
		}
		half := s.At(s.RF + rng.Int64N(until-s.RF))
		keep, moved := half.Split()
		sum := int64(0)
		for _, part := range []State{keep, moved} {
			level, _ := part.LevelAt(i, until)
			if sum += level; level > (until-s.RF)/l.Period+1 { // the larger share of an odd amount is ahead by that
				t.Fatalf("%v until %d: shard %d has %d after a split", l, until, part.Shard, level)
			}
		}
		if whole := keep.Merge(moved, shards); whole.Slots[i].Tokens != half.Slots[i].Tokens || sum > 1 {
			t.Fatalf("%v until %d: %d, and %d once merged; the halves have %d by then", l, until, half.Slots[i].Tokens,
				whole.Slots[i].Tokens, sum)
		}
	}
}

// exactly is a level after a while, whatever the capacity.
func exactly(tokens, rest int64, r Rate, elapsed int64) *big.Rat {
	n := new(big.Int).Mul(big.NewInt(elapsed), big.NewInt(r.Amount))
	more := new(big.Rat).SetFrac(n.Add(n, big.NewInt(rest)), big.NewInt(r.Period))
	return more.Add(more, new(big.Rat).SetInt64(tokens))
}
