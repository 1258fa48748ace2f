package bucket

import (
	"math"
	"math/bits"
)

// Milli is the number of millitokens in a token.
const Milli = 1000

// Rate is what one shard of a limit refills by: Amount millitokens every Period
// milliseconds up to Capacity millitokens. Period must be positive; Capacity
// and Amount must not be negative. With Amount zero nothing is ever credited.
type Rate struct {
	Capacity, Amount, Period int64
}

// Gain is what a level gains by waiting.
type Gain struct {
	Credit int64 // millitokens to add; negative only for a level above capacity
	Rest   int64 // remainder after the credit, in 1/Period millitokens
	Full   bool  // the level is at capacity, time beyond that is lost
}

// Refill returns what a level of tokens+rest/Period gains in elapsed
// milliseconds:
//
//	credit = floor((elapsed*Amount + rest) / Period)
//	rest'  =       (elapsed*Amount + rest) mod Period
//
// A level never rises above Capacity: when it gets there the remainder is
// dropped, and one that is above it already, because tokens were given back to a
// full bucket, is cut to it. A negative elapsed counts as zero.
func Refill(tokens, rest int64, r Rate, elapsed int64) Gain {
	room := SubSat(r.Capacity, tokens)
	if room <= 0 {
		return Gain{Credit: room, Full: true}
	}
	credit, left := accrue(rest, r, elapsed)
	if credit >= room {
		return Gain{Credit: room, Full: true}
	}
	return Gain{Credit: credit, Rest: left}
}

// Potential returns what a level with the remainder would gain in elapsed
// milliseconds if there were no capacity.
func Potential(rest int64, r Rate, elapsed int64) int64 {
	credit, _ := accrue(rest, r, elapsed)
	return credit
}

// accrue divides elapsed*Amount + rest by Period. The quotient saturates.
func accrue(rest int64, r Rate, elapsed int64) (credit, left int64) {
	hi, lo := bits.Mul64(uint64(max(elapsed, 0)), uint64(r.Amount))
	lo, carry := bits.Add64(lo, uint64(rest), 0)
	hi += carry
	if hi >= uint64(r.Period) {
		return math.MaxInt64, 0 // the quotient exceeds 64 bits
	}
	quo, rem := bits.Div64(hi, lo, uint64(r.Period))
	if quo > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(quo), int64(rem)
}

// Never is the wait for a level that no refill reaches.
const Never = math.MaxInt64

// Wait returns the least number of milliseconds after which Refill brings
// tokens+rest/Period to at least need: zero if it brings it there at once, Never if
// need exceeds Capacity (or Amount is zero), saturated below Never otherwise.
// One millisecond less is not enough.
func Wait(tokens, rest int64, r Rate, need int64) int64 {
	deficit := SubSat(need, min(tokens, r.Capacity))
	if deficit <= 0 {
		return 0
	}
	if need > r.Capacity || r.Amount <= 0 {
		return Never
	}
	// least e with e*Amount + rest >= deficit*Period
	hi, lo := bits.Mul64(uint64(deficit), uint64(r.Period))
	lo, borrow := bits.Sub64(lo, uint64(rest), 0)
	hi -= borrow // cannot underflow: deficit >= 1 and rest < Period
	if hi >= uint64(r.Amount) {
		return Never - 1
	}
	quo, rem := bits.Div64(hi, lo, uint64(r.Amount))
	if rem > 0 {
		quo++
	}
	if quo >= Never {
		return Never - 1
	}
	return int64(quo)
}

// RescaleRest carries a remainder over from one period to another, rounding
// down, so that it stays below the new period and mints nothing.
func RescaleRest(rest, from, to int64) int64 {
	if from == to || from <= 0 {
		return rest
	}
	hi, lo := bits.Mul64(uint64(rest), uint64(to))
	if hi >= uint64(from) {
		return 0
	}
	quo, _ := bits.Div64(hi, lo, uint64(from))
	return min(int64(quo), to-1)
}

// AddSat returns a+b, saturated to the int64 range.
func AddSat(a, b int64) int64 {
	s := a + b
	if (a > 0 && b > 0 && s < 0) || (a < 0 && b < 0 && s >= 0) {
		if a > 0 {
			return math.MaxInt64
		}
		return math.MinInt64
	}
	return s
}

// SubSat returns a-b, saturated to the int64 range.
func SubSat(a, b int64) int64 {
	d := a - b
	if (a >= 0 && b < 0 && d < 0) || (a < 0 && b > 0 && d >= 0) {
		if a >= 0 {
			return math.MaxInt64
		}
		return math.MinInt64
	}
	return d
}
