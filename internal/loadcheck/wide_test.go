package loadcheck

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func bigOf(w wide) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(w.hi), 64)
	return n.Add(n, new(big.Int).SetUint64(w.lo))
}

// Wide numbers add, subtract, multiply and compare exactly. A quotient in millitokens is rounded
// up, or is the nearest number of 64 bits.
func TestWideNumbersAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func() int64 { return rng.Int64() >> rng.IntN(63) }
	for range 20_000 {
		a, b := product(some(), some()), product(some(), some())
		if rng.IntN(2) == 0 {
			a = a.neg()
		}
		x, y := bigOf(a), bigOf(b)
		if got := bigOf(a.add(b)); got.Cmp(new(big.Int).Add(x, y)) != 0 {
			t.Fatalf("%v + %v = %v", x, y, got)
		}
		if got := bigOf(a.sub(b)); got.Cmp(new(big.Int).Sub(x, y)) != 0 {
			t.Fatalf("%v - %v = %v", x, y, got)
		}
		if a.less(b) != (x.Cmp(y) < 0) || a.less(a) {
			t.Fatalf("order of %v and %v", x, y)
		}
		period := 1 + some()
		want := new(big.Int).Mul(x, big.NewInt(1000))
		up, rest := new(big.Int).QuoRem(want, big.NewInt(period), new(big.Int)) // towards zero
		if rest.Sign() > 0 {
			up.Add(up, big.NewInt(1))
		}
		got := millis(a, period)
		switch most := new(big.Int).SetInt64(math.MaxInt64 - 2000); {
		case up.CmpAbs(most) < 0 && got != up.Int64():
			t.Fatalf("1000 * %v / %d is %d, want %v", x, period, got, up)
		case up.CmpAbs(most) >= 0 && up.Sign() > 0 && got < most.Int64():
			t.Fatalf("1000 * %v / %d is %d, want the most", x, period, got)
		case up.CmpAbs(most) >= 0 && up.Sign() < 0 && got > -most.Int64():
			t.Fatalf("1000 * %v / %d is %d, want the least", x, period, got)
		}
	}
	const most = math.MaxInt64 / 1000 // whole tokens; a part of one more may not fit
	check.Equal(t, millis(product(most-1, 1), 1), (most-1)*1000, "%d tokens", most-1)
	check.Equal(t, millis(product(most, 1), 1), math.MaxInt64, "%d tokens", most)
	for _, w := range []wide{{1, 0}, {math.MaxInt64, 1}} {
		if millis(w, 1) != math.MaxInt64 || millis(w.neg(), 1) != math.MinInt64 {
			t.Errorf("%v is %d and %d", w, millis(w, 1), millis(w.neg(), 1))
		}
	}
}
