package loadcheck

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Chance draws one of several by weight: the tenant that asks next, or the process. It
// holds the sums of the weights up to each. Make one with Weighted or Zipf.
//
// With the weights 3, 1 and 1, number 0 is drawn three times out of five.
type Chance []float64

// Weighted returns the chance of as many as there are weights, which are positive.
func Weighted(weights ...float64) Chance {
	c, sum := make(Chance, len(weights)), 0.0
	for i, w := range weights {
		sum += w
		c[i] = sum
	}
	return c
}

// Zipf returns the chance of n, at least one, in which number k, counted from 1, has the
// weight 1/k^skew. All are alike for a skew of zero.
func Zipf(n int, skew float64) Chance {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -skew)
	}
	return Weighted(weights...)
}

// Draw returns the number of one, from 0 on.
func (c Chance) Draw(random *rand.Rand) int {
	return sort.SearchFloat64s(c, random.Float64()*c[len(c)-1])
}
