package buckettest

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// History is the history of one limit: tokens taken and given back, by instant. The zero History is
// empty.
type History struct {
	net     map[int64]int64    // taken minus given back, millitokens
	surplus map[int64]*big.Rat // held above capacity just before the instant
	taken   int64
}

// Take records that milli were granted at an instant.
func (h *History) Take(at, milli int64) { h.taken += milli; h.add(at, milli) }

// Return records that milli were given back at an instant.
func (h *History) Return(at, milli int64) { h.add(at, -milli) }

func (h *History) add(at, milli int64) {
	if h.net == nil {
		h.net = map[int64]int64{}
	}
	h.net[at] += milli
}

// Surplus records by how much the bucket was rightly above its capacity just before an instant,
// because tokens were given back to a full one.
func (h *History) Surplus(at int64, milli *big.Rat) {
	if h.surplus == nil {
		h.surplus = map[int64]*big.Rat{}
	}
	if _, ok := h.surplus[at]; !ok && milli.Sign() > 0 {
		h.surplus[at] = milli
	}
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

// Taken returns how many millitokens were granted in all.
func (h *History) Taken() int64 { return h.taken }

// Excess is the window in which a history goes furthest beyond the limit, or stays closest below it.
type Excess struct {
	Milli    *big.Rat // taken - (capacity + rate*(To-From) + given back), may be negative
	From, To int64
}

// String returns the excess in tokens.
func (e Excess) String() string {
	f, _ := new(big.Rat).Quo(e.Milli, Milli(bucket.Milli)).Float64()
	return fmt.Sprintf("%+.6f tokens in [%d, %d]", f, e.From, e.To)
}

// Literal returns the worst excess if nothing that was given back before a window
// may be taken in it.
func (h *History) Literal(r bucket.Rate) Excess {
	bare := *h
	bare.surplus = nil
	return bare.Worst(r)
}

// Worst returns the worst excess over all windows from <= to. A window may also take the tokens
// given back before it and not spent (see Surplus). One pass is enough: the excess of a window is
// the difference of two functions of its ends,
//
//	(net(<= to) - rate*to) - (net(< from) - rate*from + surplus(from)) - capacity
//
// so the best start for every end is the smallest second term so far.
func (h *History) Worst(r bucket.Rate) Excess {
	at := make([]int64, 0, len(h.net))
	for t := range h.net {
		at = append(at, t)
	}
	slices.Sort(at)
	worst := Excess{Milli: Milli(-r.Capacity)}
	sum := new(big.Rat)
	var low *big.Rat
	var from int64
	for _, t := range at {
		earned := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(t), big.NewInt(r.Amount)), big.NewInt(r.Period))
		start := new(big.Rat).Sub(sum, earned)
		if s := h.surplus[t]; s != nil {
			start.Add(start, s)
		}
		if low == nil || start.Cmp(low) < 0 {
			low, from = start, t
		}
		sum.Add(sum, Milli(h.net[t]))
		x := new(big.Rat).Sub(sum, earned)
		x.Sub(x, low).Sub(x, Milli(r.Capacity))
		if x.Cmp(worst.Milli) > 0 {
			worst = Excess{x, from, t}
		}
	}
	return worst
}
