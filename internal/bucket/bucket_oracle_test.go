package bucket_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// wild returns numbers of every size, including the bounds of int64.
func wild(rng *rand.Rand) int64 {
	switch rng.IntN(6) {
	case 0:
		edges := []int64{0, 1, -1, 999, 1000, 1001, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1,
			1 << 53, -1 << 53}
		return edges[rng.IntN(len(edges))]
	case 1:
		return int64(rng.Uint64())
	default:
		n := int64(rng.Uint64() >> (1 + rng.IntN(63)))
		if rng.IntN(3) == 0 {
			return -n
		}
		return n
	}
}

// level is the exact rational that tokens and a remainder stand for.
func level(tokens, rest, period int64) *big.Rat {
	return buckettest.NewExact(tokens, rest, bucket.Rate{Period: period}).Level
}

// legal turns any numbers into a valid rate and remainder.
func legal(capacity, amount, period, rest int64) (bucket.Rate, int64) {
	abs := func(n int64) int64 { return max(n, -max(n, -math.MaxInt64)) }
	r := bucket.Rate{Capacity: abs(capacity), Amount: abs(amount), Period: max(abs(period), 1)}
	return r, abs(rest) % r.Period
}

// checkRefill compares Refill with exact rationals. Within 64 bits they are equal. If capacity and
// level are further apart, the credit stops at 2^63-1, which is less than exact.
func checkRefill(t *testing.T, tokens, rest int64, r bucket.Rate, elapsed int64) {
	t.Helper()
	g := bucket.Refill(tokens, rest, r, elapsed)
	if g.Credit < 0 && bucket.AddSat(tokens, g.Credit) != r.Capacity || g.Rest < 0 || g.Rest >= r.Period {
		t.Fatalf("Refill(%d, %d, %v, %d) = %+v: out of range", tokens, rest, r, elapsed, g)
	}
	want := buckettest.NewExact(tokens, rest, r).After(elapsed).Level
	got := level(bucket.AddSat(tokens, g.Credit), g.Rest, r.Period)
	switch cmp := got.Cmp(want); {
	case cmp == 0:
	case cmp > 0:
		t.Fatalf("Refill(%d, %d, %v, %d) = %+v mints: level %v, want %v", tokens, rest, r, elapsed, g, got, want)
	case g.Credit != math.MaxInt64:
		t.Fatalf("Refill(%d, %d, %v, %d) = %+v loses: level %v, want %v", tokens, rest, r, elapsed, g, got, want)
	}
}

// checkWait compares Wait with exact rationals: the wait is enough, and a millisecond less is not.
func checkWait(t *testing.T, tokens, rest int64, r bucket.Rate, need int64) {
	t.Helper()
	w := bucket.Wait(tokens, rest, r, need)
	e := buckettest.NewExact(tokens, rest, r)
	tokens = min(tokens, r.Capacity) // tokens above the capacity do not count
	if tokens < 0 && need > math.MaxInt64+tokens {
		if w < 0 {
			t.Fatalf("Wait(%d, %d, %v, %d) = %d", tokens, rest, r, need, w)
		}
		return // the deficit exceeds 64 bits; the wait saturates with it
	}
	switch {
	case need <= tokens:
		check.MustEqual(t, w, 0, "Wait(%d, %d, %v, %d): the tokens are there", tokens, rest, r, need)
	case need > r.Capacity || r.Amount == 0:
		check.MustEqual(t, w, bucket.Never, "Wait(%d, %d, %v, %d)", tokens, rest, r, need)
	case w == bucket.Never-1:
		if e.After(w - 1).Covers(need) {
			t.Fatalf("Wait(%d, %d, %v, %d) is saturated, but %d is enough", tokens, rest, r, need, w-1)
		}
	case w <= 0 || w == bucket.Never:
		t.Fatalf("Wait(%d, %d, %v, %d) = %d, want a time", tokens, rest, r, need, w)
	case !e.After(w).Covers(need):
		t.Fatalf("Wait(%d, %d, %v, %d) = %d is not enough", tokens, rest, r, need, w)
	case e.After(w - 1).Covers(need):
		t.Fatalf("Wait(%d, %d, %v, %d) = %d is too long", tokens, rest, r, need, w)
	}
}

// checkShares splits a whole along random paths. After every split, the shares of all existing
// shards add up, and differ only by rounding.
func checkShares(t *testing.T, whole int64, path []byte) {
	t.Helper()
	counts := map[int]int{0: 1}
	for _, p := range path {
		k := int(p) % len(counts)
		i := 0
		for id := range 1 << 20 { // the k-th existing shard in order of id
			if _, ok := counts[id]; ok {
				if i == k {
					k = id
					break
				}
				i++
			}
		}
		n := counts[k]
		if n >= 1<<16 {
			continue
		}
		own := bucket.Share(whole, k, n)
		counts[k], counts[k+n] = 2*n, 2*n
		if a, b := bucket.Share(whole, k, 2*n), bucket.Share(whole, k+n, 2*n); a+b != own || a < b || a-b > 1 {
			t.Fatalf("shard %d of %d has %d of %d, split into %d and %d", k, n, own, whole, a, b)
		}
		if bucket.SplitParent(k+n) != k || bucket.CountWith(k+n) != 2*n {
			t.Fatalf("shard %d: split from %d with count %d, want %d and %d",
				k+n, bucket.SplitParent(k+n), bucket.CountWith(k+n), k, 2*n)
		}
		var sum int64
		for id, n := range counts {
			sum += bucket.Share(whole, id, n)
		}
		check.MustEqual(t, sum, whole, "shares of %v add up to", counts)
	}
}

func TestRefillIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60_000 {
		r, rest := legal(wild(rng), wild(rng), wild(rng), wild(rng))
		checkRefill(t, wild(rng), rest, r, wild(rng))
	}
}

func TestWaitIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 60_000 {
		r, rest := legal(wild(rng), wild(rng), wild(rng), wild(rng))
		checkWait(t, wild(rng), rest, r, wild(rng))
	}
}

func TestSharesAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 200 {
		path := make([]byte, 1+rng.IntN(20))
		for i := range path {
			path[i] = byte(rng.Uint32())
		}
		r, _ := legal(wild(rng), 0, 1, 0)
		checkShares(t, r.Capacity, path)
	}
}

func TestSaturatingSums(t *testing.T) {
	clamp := func(n *big.Int) int64 {
		if n.IsInt64() {
			return n.Int64()
		}
		if n.Sign() > 0 {
			return math.MaxInt64
		}
		return math.MinInt64
	}
	rng := rand.New(rand.NewPCG(6, 1))
	ends := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for i := range 20_000 {
		a, b := wild(rng), wild(rng)
		if n := len(ends); i < n*n { // all pairs of bounds first
			a, b = ends[i/n], ends[i%n]
		}
		x, y := big.NewInt(a), big.NewInt(b)
		check.MustEqual(t, bucket.AddSat(a, b), clamp(new(big.Int).Add(x, y)), "AddSat(%d, %d)", a, b)
		check.MustEqual(t, bucket.SubSat(a, b), clamp(new(big.Int).Sub(x, y)), "SubSat(%d, %d)", a, b)
	}
}

func FuzzRefill(f *testing.F) {
	f.Add(int64(0), int64(0), int64(100_000), int64(100_000), int64(60_000), int64(37))
	f.Add(int64(-1500), int64(7), int64(100_000), int64(1000), int64(60_000), int64(60_000))
	f.Add(int64(math.MinInt64), int64(0), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(math.MaxInt64))
	f.Add(int64(150_000), int64(3), int64(100_000), int64(100_000), int64(60_000), int64(1000))
	f.Fuzz(func(t *testing.T, tokens, rest, capacity, amount, period, elapsed int64) {
		r, rest := legal(capacity, amount, period, rest)
		checkRefill(t, tokens, rest, r, elapsed)
	})
}

func FuzzWait(f *testing.F) {
	f.Add(int64(10_000), int64(0), int64(1_000_000), int64(1_000_000), int64(60_000), int64(20_000))
	f.Add(int64(-1), int64(59_999), int64(10_000), int64(10_000), int64(60_000), int64(0))
	f.Add(int64(0), int64(0), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, tokens, rest, capacity, amount, period, need int64) {
		r, rest := legal(capacity, amount, period, rest)
		checkWait(t, tokens, rest, r, need)
	})
}

func FuzzShare(f *testing.F) {
	f.Add(int64(11_000), []byte{0, 1, 2, 3})
	f.Add(int64(math.MaxInt64), []byte{0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, whole int64, path []byte) {
		if len(path) > 64 {
			path = path[:64]
		}
		r, _ := legal(whole, 0, 1, 0)
		checkShares(t, r.Capacity, path)
	})
}
