package loadcheck

import (
	"math"
	"math/bits"
)

// wide is a signed integer of 128 bits in two's complement.
type wide struct {
	hi int64
	lo uint64
}

// product returns a*b for a, b >= 0.
func product(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{int64(hi), lo}
}

func (w wide) add(v wide) wide {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	return wide{w.hi + v.hi + int64(carry), lo}
}

func (w wide) neg() wide { return wide{}.sub(w) }

func (w wide) sub(v wide) wide {
	lo, borrow := bits.Sub64(w.lo, v.lo, 0)
	return wide{w.hi - v.hi - int64(borrow), lo}
}

func (w wide) less(v wide) bool {
	return w.hi < v.hi || w.hi == v.hi && w.lo < v.lo
}

// millis returns ceil(1000*w/period), saturated.
func millis(w wide, period int64) int64 {
	negative := w.hi < 0
	if negative {
		w = w.neg()
	}
	// The quotient in whole tokens, then in millitokens of the rest.
	if uint64(w.hi) >= uint64(period) {
		return saturated(negative)
	}
	whole, rest := bits.Div64(uint64(w.hi), w.lo, uint64(period))
	if whole > math.MaxInt64/1000-1 {
		return saturated(negative)
	}
	hi, lo := bits.Mul64(rest, 1000)
	part, left := bits.Div64(hi, lo, uint64(period))
	out := int64(whole*1000 + part)
	if negative {
		return -out
	}
	if left > 0 {
		out++
	}
	return out
}

func saturated(negative bool) int64 {
	if negative {
		return math.MinInt64
	}
	return math.MaxInt64
}
