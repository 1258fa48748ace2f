package buckettest_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
)

// The one-pass worst excess equals the one found by trying every window.
func TestWorstExcessEqualsBruteForce(t *testing.T) {
	type event struct{ at, net int64 }
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := bucket.Rate{Capacity: rng.Int64N(5000), Amount: 1 + rng.Int64N(3000), Period: 1 + rng.Int64N(1000)}
		var h buckettest.History
		var events []event
		surplus := map[int64]int64{}
		for range 1 + rng.IntN(25) {
			e := event{rng.Int64N(50), rng.Int64N(4000)}
			switch rng.IntN(4) {
			case 0:
				h.Return(e.at, e.net)
				e.net = -e.net
			case 1:
				if surplus[e.at] == 0 && e.net > 0 {
					surplus[e.at] = e.net
					h.Surplus(e.at, buckettest.Milli(e.net))
				}
				fallthrough
			default:
				h.Take(e.at, e.net)
			}
			events = append(events, e)
		}
		want := buckettest.Milli(-r.Capacity)
		for _, a := range events {
			for _, b := range events {
				if a.at > b.at {
					continue
				}
				x := new(big.Rat).Neg(buckettest.Earned(r, b.at-a.at))
				x.Sub(x, buckettest.Milli(r.Capacity+surplus[a.at]))
				for _, e := range events {
					if a.at <= e.at && e.at <= b.at {
						x.Add(x, buckettest.Milli(e.net))
					}
				}
				if x.Cmp(want) > 0 {
					want = x
				}
			}
		}
		if got := h.Worst(r); got.Milli.Cmp(want) != 0 {
			t.Fatalf("seed %d: worst excess %v, brute force finds %v", seed, got.Milli, want)
		}
	}
}
