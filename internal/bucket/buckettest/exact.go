package buckettest

import (
	"math/big"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Milli returns n as a rational.
func Milli(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// Earned returns amount*elapsed/period, the yield of a rate in elapsed milliseconds; nothing if
// elapsed is negative.
func Earned(r bucket.Rate, elapsed int64) *big.Rat {
	if elapsed <= 0 {
		return new(big.Rat)
	}
	n := new(big.Int).Mul(big.NewInt(elapsed), big.NewInt(r.Amount))
	return new(big.Rat).SetFrac(n, big.NewInt(r.Period))
}

// Exact is one level as a rational number of millitokens, at most the capacity.
type Exact struct {
	Level *big.Rat
	Rate  bucket.Rate
}

// NewExact returns the exact level that tokens and a remainder stand for.
func NewExact(tokens, rest int64, r bucket.Rate) Exact {
	frac := new(big.Rat).SetFrac64(rest, r.Period)
	return Exact{Level: frac.Add(frac, Milli(tokens)), Rate: r}
}

// After returns the level after waiting for elapsed milliseconds.
func (e Exact) After(elapsed int64) Exact {
	top := Milli(e.Rate.Capacity)
	next := new(big.Rat).Add(e.Level, Earned(e.Rate, elapsed))
	if next.Cmp(top) > 0 {
		next = top
	}
	return Exact{next, e.Rate}
}

// Covers reports whether the level is at least need millitokens.
func (e Exact) Covers(need int64) bool { return e.Level.Cmp(Milli(need)) >= 0 }

// LevelAt returns the exact level of slot i of a state at now. The state's clock is trusted; an
// instant in the future means that nothing has passed.
func LevelAt(s bucket.State, i int, now int64) *big.Rat {
	sl := s.Slots[i]
	return NewExact(sl.Tokens, sl.Rest, s.Rate(i)).After(bucket.SubSat(now, s.RF)).Level
}

// HeldAt returns the level of a limit at now, summed over all shards.
func HeldAt(shards []bucket.State, limit string, now int64) *big.Rat {
	sum := new(big.Rat)
	for _, s := range shards {
		if i := s.Index(limit); i >= 0 {
			sum.Add(sum, LevelAt(s, i, now))
		}
	}
	return sum
}
