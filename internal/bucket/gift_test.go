package bucket

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A gift fills a rate up to its capacity. A full rate gets nothing, and a rate above a lowered
// capacity keeps its level.
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

// A quota may be topped up above its capacity, until its period ends. A positive gift begins the
// period of a first-use quota; a gift of zero or less does not. Refilling it ends the period, and
// tokens taken in it no longer count. Otherwise the period stays, even if a calendar's end is not
// yet in the state.
func TestGiftsTopUpQuotas(t *testing.T) {
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
			t.Errorf("%+v to %s until %d: %d, %d extra, until %d, %d resets; want %d, %d, %d, %d; the receiver has %d",
				c.gift, c.reset, c.end, got.Tokens, got.Extra, got.End, got.Resets, c.want.Tokens, c.want.Extra, c.want.End,
				c.want.Resets, s.Slots[i].Tokens)
		}
	}
}

// Top-ups do not count towards full. Tokens that expired unused are not spent.
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
	check.Equal(t, (Slot{Used: 12, Ended: 5}).Spent(), 7, "12 taken, of which 5 expired unused")
}

// A refill instant ahead of now stays if clocks may differ by that much. A later one comes from a
// broken clock, and is replaced by now.
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

// A drained rate holds nothing until the instant: the refill until then is taken away in advance. A
// level that is already lower stays.
func TestDrainedRatesAreEmptyAtTheInstant(t *testing.T) {
	rate := Limit{Name: "rpm", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 10_000} // 1 per second
	for _, c := range []struct {
		level, until, want int64
	}{
		{10_000, 20_000, -20_000}, // full
		{4000, 20_000, -20_000},
		{-19_999, 20_000, -20_000}, // it would hold a millitoken by then
		{-20_000, 20_000, -20_000}, // drained already
		{-20_001, 20_000, -20_001},
		{-20_000, 30_000, -30_000}, // the later instant wins
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

// Only limits that refill and deny are drained.
func TestDrainsLeaveOtherKindsAlone(t *testing.T) {
	rate := Limit{Name: "rpm", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 60_000}
	soft, boundless := rate, rate
	soft.Name, soft.Soft = "soft", true
	boundless.Name, boundless.Amount, boundless.Period = "unlimited", 1_000_000_000_000_000_000, 1000
	s := New([]Limit{rate, soft, boundless,
		{Name: "month", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h0D1@UTC"},
		{Name: "jobs", Capacity: 10 * Milli, Period: 60_000, InFlight: true}}, 0, 1, 0)
	if got := s.Drains(60_000); len(got) != 1 || got["rpm"].Milli != -20_000 {
		t.Errorf("drained %v, want only rpm, by 20 tokens", got)
	}
}

// A drained shard holds nothing before the instant, in steps of a millisecond and with any
// fraction, and less than a millitoken at the instant. From there it refills like an emptied
// bucket. So do its halves after a split at any time, and two halves that merge.
func TestDrainsAreExactToTheMillisecond(t *testing.T) {
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
			if sum += level; level > (until-s.RF)/l.Period+1 { // the larger half of an odd amount refills that much sooner
				t.Fatalf("%v until %d: shard %d has %d after a split", l, until, part.Shard, level)
			}
		}
		if whole := keep.Merge(moved, shards); whole.Slots[i].Tokens != half.Slots[i].Tokens || sum > 1 {
			t.Fatalf("%v until %d: %d, and %d once merged; the halves have %d by then", l, until, half.Slots[i].Tokens,
				whole.Slots[i].Tokens, sum)
		}
	}
}

// exactly is a level after some time, ignoring the capacity.
func exactly(tokens, rest int64, r Rate, elapsed int64) *big.Rat {
	n := new(big.Int).Mul(big.NewInt(elapsed), big.NewInt(r.Amount))
	more := new(big.Rat).SetFrac(n.Add(n, big.NewInt(rest)), big.NewInt(r.Period))
	return more.Add(more, new(big.Rat).SetInt64(tokens))
}
