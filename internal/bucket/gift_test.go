package bucket

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
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
		check.Equal(t, s.Give(map[string]Gift{"rpm": c.gift}).Slots[i].Tokens, c.want,
			"%+v to a level of %d", c.gift, c.level)
	}
}

// Quotas may be topped up above their capacity, until their period ends. One from the first use begins with the
// smallest gift, but not with none, or one that takes away. Made whole it begins another period, if it had begun
// one, in which what was taken before does not count. Else a period stays as it is, also where the state does
// not say yet when that of a calendar ends.
func TestGiftsToQuotas(t *testing.T) {
	const first, monthly, february = "+3600", "m0h0D1@UTC", 31 * 24 * 3_600_000
	for _, c := range []struct {
		reset       string
		end, tokens int64
		gift        Gift
		want        Slot
	}{
		{first, 0, 10_000, Gift{Milli: 5000}, Slot{Tokens: 15_000, Extra: 5000, End: 3_601_000}},
		{first, 0, 10_000, Gift{Milli: 1}, Slot{Tokens: 10_001, Extra: 1, End: 3_601_000}},
		{first, 0, 10_000, Gift{}, Slot{Tokens: 10_000}},
		{first, 0, 10_000, Gift{Milli: -5}, Slot{Tokens: 10_000}},
		{first, 77_000, 10_000, Gift{Milli: 5000}, Slot{Tokens: 15_000, Extra: 5000, End: 77_000}},
		{first, 0, 4000, Gift{Whole: true}, Slot{Tokens: 10_000}},
		{first, 77_000, 4000, Gift{Whole: true}, Slot{Tokens: 10_000, End: 3_601_000}},
		{first, 3_601_000, 4000, Gift{Whole: true}, Slot{Tokens: 10_000, End: 3_601_001}},
		{monthly, 77_000, 10_000, Gift{Milli: 5000}, Slot{Tokens: 15_000, Extra: 5000, End: 77_000}},
		{monthly, 0, 10_000, Gift{Milli: 5000}, Slot{Tokens: 15_000, Extra: 5000}},
		{monthly, february, 4000, Gift{Whole: true}, Slot{Tokens: 10_000, End: february, Resets: 1}},
	} {
		l := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: c.reset}
		s, i := one(l, 1000, c.tokens)
		s.Slots[i].End = c.end
		got := s.Give(map[string]Gift{"q": c.gift}).Slots[i]
		if c.want.Limit = l; got != c.want || s.Slots[i].Tokens != c.tokens {
			t.Errorf("%+v to %s until %d: %d, %d extra, until %d, %d resets; want %d, %d, %d, %d; the state itself has %d",
				c.gift, c.reset, c.end, got.Tokens, got.Extra, got.End, got.Resets, c.want.Tokens, c.want.Extra, c.want.End,
				c.want.Resets, s.Slots[i].Tokens)
		}
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
	check.Equal(t, (Slot{Used: 12, Ended: 5}).Spent(), 7, "12 were spent, of which 5 ended unspent")
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
		check.Equal(t, s.Slots[i].Tokens, c.want, "a level of %d until %d", c.level, c.until)
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
			check.MustEqual(t, at.Cmp(uncapped), 0, "%v until %d: at %s by then, was %s", l, until, at, uncapped)
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
