package ledger

import (
	"math"
	"testing"
)

// A counter takes one byte if it is small, else one more than its bits need beside two in the first:
// snapshots with marks of many shards stay within a write unit.
func TestSizesOfCounters(t *testing.T) {
	for n, want := range map[int64]int{
		0: 1, 0xBF: 1, 0xC0: 2, 1<<10 - 1: 2, 1 << 10: 3, 1<<18 - 1: 3, 1 << 18: 4, 1<<58 - 1: 8, 1 << 58: 9,
		math.MaxInt64: 9, -1: 9, math.MinInt64: 9,
	} {
		b := appendCounter(nil, n)
		got, rest, ok := takeCounter(b)
		if len(b) != want || got != n || len(rest) != 0 || !ok {
			t.Errorf("%d takes %d bytes, want %d; read as %d, %v", n, len(b), want, got, ok)
		}
	}
}
