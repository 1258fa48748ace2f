package ledger

import (
	"math"
	"testing"
)

// A small counter takes one byte. A larger one takes as many as its bits need, after two bits in
// the first byte. So snapshots with marks of many shards fit into a write unit.
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
