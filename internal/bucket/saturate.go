package bucket

import "math"

// AddSat returns a+b, saturated to the int64 range.
func AddSat(a, b int64) int64 {
	if s := a + b; (s > a) == (b > 0) {
		return s
	}
	return furthest(b > 0)
}

// SubSat returns a-b, saturated to the int64 range.
func SubSat(a, b int64) int64 {
	if d := a - b; (d < a) == (b > 0) {
		return d
	}
	return furthest(b < 0)
}

func furthest(up bool) int64 {
	if up {
		return math.MaxInt64
	}
	return math.MinInt64
}
