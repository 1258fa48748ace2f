package loadcheck

import (
	"math"
	"math/rand/v2"
	"testing"
)

// fixed is a source that always returns the same number.
type fixed uint64

func (f fixed) Uint64() uint64 { return uint64(f) }

func TestChance(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    Chance
		wants []float64 // the share of each number
	}{
		{"weights", Weighted(3, 1, 1), []float64{0.6, 0.2, 0.2}},
		{"Zipf 1", Zipf(3, 1), []float64{6. / 11, 3. / 11, 2. / 11}},
		{"Zipf 2", Zipf(2, 2), []float64{0.8, 0.2}},
		{"all alike", Zipf(4, 0), []float64{0.25, 0.25, 0.25, 0.25}},
		{"only one", Zipf(1, 1.1), []float64{1}},
	} {
		const of = 10_000 // draws, evenly over the 53 bits of a float
		got := make([]int, len(c.wants))
		for i := range uint64(of) {
			got[c.of.Draw(rand.New(fixed(i*(1<<53/of))))]++
		}
		for i, want := range c.wants {
			if share := float64(got[i]) / of; math.Abs(share-want) > 1.5/of {
				t.Errorf("%s: number %d is drawn %d times of %d, want a share of %.3f", c.name, i, got[i], of, want)
			}
		}
	}
}
