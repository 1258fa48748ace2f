package buckettest_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
)

// Of 10 tokens, and 1 a second, 10 are taken at once and 3 a second later: 2 too many, or 1 if a grant may be
// recorded a second late.
func TestWorstWindowOfAHistory(t *testing.T) {
	var h buckettest.History
	h.Take(1000, 10_000)
	h.Take(2000, 3000)
	r := bucket.Rate{Capacity: 10_000, Amount: 1000, Period: 1000}
	for late, want := range map[int64]string{
		0: "+2.000000 tokens in [1000, 2000]", 1000: "+1.000000 tokens in [1000, 2000]",
	} {
		if got := h.Worst(r, late); got.String() != want {
			t.Errorf("%d ms late: %v, want %s", late, got, want)
		}
	}
}
