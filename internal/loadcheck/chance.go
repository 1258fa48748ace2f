package loadcheck

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Chance draws one of several numbers by weight, such as the next tenant or process. It holds the
// cumulative weights. Weighted and Zipf make one.
//
// With the weights 3, 1 and 1, number 0 is drawn three times out of five.
type Chance []float64

// Weighted returns the chance with these weights, which must be positive.
func Weighted(weights ...float64) Chance {
	c, sum := make(Chance, len(weights)), 0.0
	for i, w := range weights {
		sum += w
		c[i] = sum
	}
	return c
}

// Zipf returns the chance of n numbers, at least one, in which number k, counted from 1, has the
// weight 1/k^skew. With a skew of zero, all weights are equal.
func Zipf(n int, skew float64) Chance {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -skew)
	}
	return Weighted(weights...)
}

// Draw returns a random number, from 0.
func (c Chance) Draw(random *rand.Rand) int {
	return sort.SearchFloat64s(c, random.Float64()*c[len(c)-1])
}
