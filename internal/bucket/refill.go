package bucket

import (
	"math"
	"math/bits"
)

// Milli is the number of millitokens in a token.
const Milli = 1000

// Gain is the gain of a level by waiting.
type Gain struct {
	Credit int64 // millitokens to add; negative only for a level above capacity
	Rest   int64 // remainder after the credit, in 1/Period millitokens
}

// Refill returns the gain of a level of tokens+rest/Period in elapsed milliseconds:
//
//	credit = floor((elapsed*Amount + rest) / Period)
//	rest'  =       (elapsed*Amount + rest) mod Period
//
// A level never rises above Capacity; when it gets there the remainder is dropped. A level that is
// above it already, because tokens were given back to a full bucket, is cut to it. A negative
// elapsed counts as zero.
//
// With the remainder, many small steps credit as much as one large step. At 10 tokens a minute
// (Amount 10_000, Period 60_000) a level of 0 gains after
//
//	 7 ms   floor(7*10_000 / 60_000) = 1 millitoken, and 10_000 remain of 70_000
//	14 ms   floor((7*10_000 + 10_000) / 60_000) = 1 more, and 20_000 remain
//
// which is 2 + 20_000/60_000, the credit of one step of 14 ms. Without it each step would lose a
// third of a millitoken.
func Refill(tokens, rest int64, r Rate, elapsed int64) Gain {
	if r.Edge > 0 {
		return r.atEdge(tokens, elapsed)
	}
	room := SubSat(r.Capacity, tokens)
	if room <= 0 { // full, or above it: a level of 12 of 10 is cut by 2
		return Gain{Credit: room}
	}
	credit, left := accrue(rest, r, elapsed)
	if credit >= room { // it gets full: any further credit is lost
		return Gain{Credit: room}
	}
	return Gain{Credit: credit, Rest: left}
}

// Potential returns the gain of a level with the remainder in elapsed milliseconds if there were no
// capacity: how far a line has risen, see table.Charge.
func Potential(rest int64, r Rate, elapsed int64) int64 {
	credit, _ := accrue(rest, r, elapsed)
	return credit
}

// accrue divides elapsed*Amount + rest by Period. The quotient saturates.
func accrue(rest int64, r Rate, elapsed int64) (credit, left int64) {
	hi, lo := bits.Mul64(uint64(max(elapsed, 0)), uint64(r.Amount))
	lo, carry := bits.Add64(lo, uint64(rest), 0)
	hi += carry
	if hi >= uint64(r.Period) { // the quotient exceeds 64 bits
		return math.MaxInt64, 0
	}
	quo, rem := bits.Div64(hi, lo, uint64(r.Period))
	if quo > math.MaxInt64 { // it exceeds 63
		return math.MaxInt64, 0
	}
	return int64(quo), int64(rem)
}

// Never is the wait for a level that no refill reaches.
const Never = math.MaxInt64

// Wait returns the least number of milliseconds after which Refill brings tokens+rest/Period to at
// least need. It is zero if need is there at once, Never if need exceeds Capacity or Amount is
// zero, and else saturated below Never. One millisecond less is not enough:
//
//	e = ceil((deficit*Period - rest) / Amount), the least e with e*Amount + rest >= deficit*Period
//
// A level of 4 that needs 5 at 10 tokens a minute, with nothing remaining, waits
// ceil(1_000*60_000 / 10_000) = 6_000 ms. A quota waits for its edge.
func Wait(tokens, rest int64, r Rate, need int64) int64 {
	if r.Edge > 0 {
		return r.untilEdge(tokens, need)
	}
	deficit := SubSat(need, min(tokens, r.Capacity))
	if deficit <= 0 { // it is there; a level above a capacity that was lowered counts as full
		return 0
	}
	if need > r.Capacity || r.Amount <= 0 { // no full bucket holds that much, or nothing is credited
		return Never
	}
	hi, lo := bits.Mul64(uint64(deficit), uint64(r.Period))
	lo, borrow := bits.Sub64(lo, uint64(rest), 0)
	hi -= borrow                // cannot underflow: deficit >= 1 and rest < Period
	if hi >= uint64(r.Amount) { // some day, but not one that an int64 counts
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
