package buckettest

import (
	"fmt"
	"math/big"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
)

// History is the grants of one limit, by instant. The zero History is empty.
type History struct{ grants []loadcheck.Event }

// Take records that milli were granted at an instant.
func (h *History) Take(at, milli int64) {
	h.grants = append(h.grants, loadcheck.Event{Kind: loadcheck.Grant, Sent: at, Answered: at, Tokens: milli})
}

// Excess is the window in which a history goes furthest beyond the limit, or stays closest below it.
// Its tokens are millitokens.
type Excess struct{ loadcheck.Result }

// String returns the excess in tokens.
func (e Excess) String() string {
	return fmt.Sprintf("%+.6f tokens in [%d, %d]", float64(e.Excess)/1000/bucket.Milli, e.From, e.To)
}

// Worst returns the worst excess over all windows, each of which may have the refill of so many more
// milliseconds: a grant is recorded that much later than it was decided.
func (h *History) Worst(r bucket.Rate, late int64) Excess {
	rule := loadcheck.Rule{Capacity: r.Capacity, Amount: r.Amount, Period: r.Period}
	worst, err := loadcheck.Worst(loadcheck.Bound{Rules: loadcheck.InForce([]loadcheck.Rule{rule}), Skew: late}, h.grants)
	if err != nil {
		panic("bug: " + err.Error())
	}
	return Excess{worst}
}

// Reference is a bucket of one limit, together with a pool of given-back tokens. Takes draw on the
// bucket first. The tokens of the pool may be taken on top of the bucket's: an image from before a
// give-back does not know of it.
//
// Its level is the smaller of two: the line, which is not bound by the capacity, and the limit, the
// level of a bucket that was full at the refill instant.
type Reference struct {
	rate        bucket.Rate
	line, limit *big.Rat
	pool        *big.Rat
	at          int64
}

// NewReference returns a full one.
func NewReference(r bucket.Rate, now int64) *Reference {
	return &Reference{rate: r, line: Milli(r.Capacity), limit: Milli(r.Capacity), pool: new(big.Rat), at: now}
}

// Level returns the level of the bucket at now, without the pool.
func (r *Reference) Level(now int64) *big.Rat {
	r.line = new(big.Rat).Add(r.line, Earned(r.rate, now-r.at))
	r.limit = Exact{r.limit, r.rate}.After(now - r.at).Level
	r.at = max(r.at, now)
	return r.level()
}

func (r *Reference) level() *big.Rat {
	if r.line.Cmp(r.limit) < 0 {
		return r.line
	}
	return r.limit
}

// Pool returns the tokens given back and not taken again.
func (r *Reference) Pool() *big.Rat { return r.pool }

// Take takes milli at now, or gives them back if negative: to the bucket, and to
// the pool.
func (r *Reference) Take(now, milli int64) {
	r.Level(now)
	r.add(Milli(-milli))
	level := r.level()
	switch {
	case milli < 0:
		r.pool = new(big.Rat).Sub(r.pool, Milli(milli))
	case level.Sign() < 0 && r.pool.Sign() > 0:
		from := new(big.Rat).Neg(level)
		if from.Cmp(r.pool) > 0 {
			from = r.pool
		}
		r.pool = new(big.Rat).Sub(r.pool, from)
		r.add(from)
	}
}

func (r *Reference) add(milli *big.Rat) {
	r.line, r.limit = new(big.Rat).Add(r.line, milli), new(big.Rat).Add(r.limit, milli)
}

// Since makes now the refill instant.
func (r *Reference) Since(now int64) { r.Set(now, r.Level(now)) }

// Set makes the bucket hold a level at now, the refill instant.
func (r *Reference) Set(now int64, level *big.Rat) {
	r.line, r.limit, r.at = level, Milli(r.rate.Capacity), now
}

// Refills makes it refill by another rate from now on.
func (r *Reference) Refills(now int64, rate bucket.Rate) {
	r.Level(now)
	r.rate = rate
}
