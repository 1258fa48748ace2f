package bucket_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// holding returns a random state of one limit at 1000 s, possibly with held tokens. Its level is
// within bounds.
func holding(rng *rand.Rand) bucket.State {
	l := bucket.Limit{Name: "a", Capacity: 1000 * (2 + rng.Int64N(50)), Amount: 1 + rng.Int64N(60_000)}
	l.Period = 1 + rng.Int64N(60_000)
	s := bucket.New([]bucket.Limit{l}, 0, 1, 1_000_000)
	sl := &s.Slots[0]
	sl.Held, s.HeldUntil = rng.Int64N(l.Capacity+1), 1_000_000+rng.Int64N(20_000)-2_000
	if rng.IntN(5) == 0 {
		s.HeldUntil = 0
	}
	sl.Tokens, sl.Rest = rng.Int64N(s.Top(0)+1)-rng.Int64N(3)*rng.Int64N(l.Capacity), 0
	if sl.Tokens < s.Top(0) {
		sl.Rest = rng.Int64N(l.Period)
	}
	return s
}

// exactly is the level at an instant by the formula of ahead.md, in rationals: the least of the
// line, the capacity, and capacity - held + the refill since the hold ended.
func exactly(s bucket.State, at int64) *big.Rat {
	sl, r := s.Slots[0], s.Rate(0)
	level := buckettest.NewExact(sl.Tokens, sl.Rest, r).After(at - s.RF).Level
	if s.HeldUntil > s.RF {
		top := new(big.Rat).Add(buckettest.Milli(r.Capacity-sl.Held), buckettest.Earned(r, at-s.HeldUntil))
		if top.Cmp(level) < 0 {
			level = top
		}
	}
	return level
}

// Level and held tokens never exceed the capacity. The level follows the formula exactly, in one
// step or many, and waits are exact.
func TestLevelsLeaveRoomForHeldTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	bounded := 0
	for range 20_000 {
		s := holding(rng)
		at := s.RF + rng.Int64N(30_000)
		want := exactly(s, at)
		tokens, rest := s.LevelAt(0, at)
		if got := buckettest.NewExact(tokens, rest, s.Rate(0)).Level; got.Cmp(want) != 0 {
			t.Fatalf("%s held=%d until %d: level at %d is %s, want %s", s, s.Slots[0].Held, s.HeldUntil, at, got, want)
		}
		if want.Cmp(buckettest.LevelAt(s, 0, at)) < 0 {
			bounded++
		}
		steps := s
		for steps.RF < at {
			steps = steps.At(min(at, steps.RF+1+rng.Int64N(8_000)))
		}
		if got := s.At(at).Slots[0]; got != steps.Slots[0] || got.Tokens != tokens || got.Rest != rest {
			t.Fatalf("%s: %+v in one step, %+v in many, LevelAt has %d and %d", s, got, steps.Slots[0], tokens, rest)
		}

		need := rng.Int64N(s.Rate(0).Capacity + 1)
		wait := s.Wait(0, need)
		reaches := func(after int64) bool { return exactly(s, s.RF+after).Cmp(buckettest.Milli(need)) >= 0 }
		if wait == bucket.Never || !reaches(wait) || wait > 0 && reaches(wait-1) {
			t.Fatalf("%s held=%d until %d: waits %d for %d", s, s.Slots[0].Held, s.HeldUntil, wait, need)
		}
		if v := s.Decide([]int64{need, 0}, at); v.Granted != (at >= s.RF+wait) || !v.Granted && v.At != s.RF+wait {
			t.Fatalf("%s: decided %+v at %d for %d, the wait is %d", s, v, at, need, wait)
		}
		check.MustEqual(t, s.Wait(0, s.Rate(0).Capacity+1), bucket.Never, "waits for more than the capacity")
	}
	if bounded < 2_000 {
		t.Errorf("held tokens bounded only %d levels", bounded)
	}
}

func TestBucketsFillOnlyAfterHoldsEnd(t *testing.T) {
	l := bucket.Limit{Name: "a", Capacity: 10_000, Amount: 1_000, Period: 1_000}
	s := bucket.New([]bucket.Limit{l}, 0, 1, 15_000)
	s.Slots[0].Tokens, s.Slots[0].Held, s.HeldUntil = 5_000, 4_000, 20_000
	for at, want := range map[int64]int64{15_000: 5_000, 16_000: 6_000, 17_000: 6_000, 20_000: 6_000, 22_000: 8_000,
		30_000: 10_000} {
		if got, _ := s.LevelAt(0, at); got != want {
			t.Errorf("level at %d is %d, want %d", at, got, want)
		}
	}
	check.Equal(t, s.FullAt(15_000), 24_000, "full at")
	s.HeldUntil = 15_000 + bucket.MaxAhead + bucket.MaxSkew + 1 // no sound clock wrote that
	if got, _ := s.LevelAt(0, 20_000); got != 10_000 || s.SomeHeld(15_000) {
		t.Errorf("level at 20 s is %d, some held %v", got, s.SomeHeld(15_000))
	}
}

// A split leaves the held tokens with the shard that counted them. It mints nothing, and loses
// nothing while that shard's share has room for them. The new shard gets half of a debt.
func TestSplitsAndMergesKeepHeldTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 7))
	for range 20_000 {
		s := holding(rng)
		s.HeldUntil = s.RF + rng.Int64N(3_000)
		s = s.At(s.RF)
		whole, held := s.Slots[0], s.Slots[0].Held
		if s.HeldUntil == s.RF {
			held = 0
		}
		keep, moved := s.Split()
		k, m := keep.Slots[0], moved.Slots[0]
		if k.Held != whole.Held || keep.HeldUntil != s.HeldUntil || m.Held != max(0, held-keep.Rate(0).Capacity) {
			t.Fatalf("%s held=%d split into %+v and %+v", s, whole.Held, k, m)
		}
		most := min(held, keep.Rate(0).Capacity) // the most that the first can hold above its level
		share := keep.Rate(0).Capacity
		switch lost := whole.Tokens - k.Tokens - m.Tokens; {
		case whole.Tokens >= 0 && lost != max(0, held-share), whole.Tokens < 0 && k.Tokens != share-held && lost != 0:
			t.Fatalf("%s held=%d split into %s and %s: %d lost", s, held, keep, moved, lost)
		case whole.Tokens < 0 && (m.Tokens > whole.Tokens/2 || m.Tokens < whole.Tokens/2-1):
			t.Fatalf("%s held=%d split into %s and %s: not half of the debt", s, held, keep, moved)
		}
		if k.Tokens > share-held || m.Tokens > moved.Rate(0).Capacity || most+max(k.Tokens, 0) > share {
			t.Fatalf("%s held=%d split into %s and %s: more than full", s, held, keep, moved)
		}
		back := keep.Merge(moved, 1)
		if b := back.Slots[0]; b.Held != whole.Held+m.Held || b.Tokens > whole.Tokens ||
			m.Held == 0 && b.Tokens != whole.Tokens {
			t.Fatalf("%s split and merged is %s, held %d", s, back, b.Held)
		}
	}
	a, b := holding(rng), holding(rng)
	b.Slots[0].Limit = a.Slots[0].Limit
	a.HeldUntil, b.HeldUntil = a.RF+100, a.RF+300
	a.Slots[0].Held, b.Slots[0].Held = 1_000, 2_000
	if m := a.Merge(b, 1); m.Slots[0].Held != 3_000 || m.HeldUntil != a.RF+300 {
		t.Errorf("merged %d held until %d", m.Slots[0].Held, m.HeldUntil)
	}
}

// spendable is how many tokens can be taken from shards with one limit at an instant.
func spendable(at int64, shards ...bucket.State) (sum int64) {
	for _, s := range shards {
		tokens, _ := s.LevelAt(0, at)
		sum += max(tokens, 0)
	}
	return sum
}

// After a split, the two shards together never offer more than the whole did. The new shard also
// gets no more debt than that requires: a second computation raises its level as long as the levels
// do not exceed the whole, and finds only what rounding loses.
//
// For example, capacity 10, refilled by 1 per second, 8 held for a minute, a level of -3. The first
// shard must leave room for 8 of 5, so it is at -3, and stays there for the minute. With -3 and 0
// the levels would add up, but 1 could be taken after two seconds, while the whole would still owe
// 1. With -1.5, tokens can be taken after three seconds, as from the whole.
func TestSplitsMintNothingWhileTokensAreHeld(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 7))
	owed := 0
	for range 1_000 {
		l := bucket.Limit{Name: "a", Capacity: 2000 + rng.Int64N(40_000)}
		l.Amount, l.Period = 2*(100+rng.Int64N(300)), 1+rng.Int64N(3)
		s := bucket.New([]bucket.Limit{l}, 0, 1, 1_000_000)
		s.Slots[0].Held, s.HeldUntil = rng.Int64N(l.Capacity+1), s.RF+rng.Int64N(800)
		s.Slots[0].Tokens = rng.Int64N(s.Top(0)+1) - rng.Int64N(2)*rng.Int64N(l.Capacity)
		s.Slots[0].Rest = rng.Int64N(l.Period)
		s = s.At(s.RF)
		keep, moved := s.Split()
		mints := func() bool {
			for at := s.RF; at < s.RF+900; at++ {
				if spendable(at, keep, moved) > spendable(at, s)+1 { // shares are rounded
					return true
				}
			}
			return false
		}
		if mints() {
			t.Fatalf("%s held=%d until %d split into %s and %s mints", s, s.Slots[0].Held, s.HeldUntil, keep, moved)
		}
		if sum := keep.Slots[0].Tokens + moved.Slots[0].Tokens; s.Slots[0].Tokens < 0 && sum < s.Slots[0].Tokens {
			owed++
			got := &moved.Slots[0].Tokens
			more := 4 + l.Amount/l.Period // the refill between two instants
			if *got += more; sum+more <= s.Slots[0].Tokens && s.HeldUntil > s.RF+600 && !mints() {
				t.Fatalf("%s held=%d until %d split into %s and %s: too low", s, s.Slots[0].Held, s.HeldUntil, keep, moved)
			}
		}
	}
	if owed < 50 {
		t.Errorf("only %d splits of a debt", owed)
	}
}

// A process holds tokens for at most ten minutes, by a clock with a bounded skew. Longer holds are
// ignored.
func TestImpossiblyLongHoldsAreIgnored(t *testing.T) {
	const at, longest = 1_700_000_000_000, bucket.MaxAhead + bucket.MaxSkew
	for _, c := range []struct{ rf, until, want int64 }{
		{at, at, at}, {at, at + 1, at + 1}, {at, at + longest, at + longest}, {at, at + longest + 1, at},
		{at + 50, at + 50 + longest, at + 50 + longest}, {at + 50, at + 51 + longest, at},
		{at - 50, at + longest, at + longest},
	} {
		check.Equal(t, (bucket.State{RF: c.rf, HeldUntil: c.until}).HeldAfter(at), c.want, "%+v: until", c)
	}
}
