package buckettest

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// History is what happened to one limit: tokens taken and given back, by
// instant. The zero History is empty.
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

// Surplus records what the bucket rightly held above its capacity just before
// an instant, because tokens were given back to a full one.
func (h *History) Surplus(at int64, milli *big.Rat) {
	if h.surplus == nil {
		h.surplus = map[int64]*big.Rat{}
	}
	if _, ok := h.surplus[at]; !ok && milli.Sign() > 0 {
		h.surplus[at] = milli
	}
}

// Taken returns how many millitokens were granted in all.
func (h *History) Taken() int64 { return h.taken }

// Excess is the window in which a history goes furthest beyond, or stays
// closest below, what the limit allows.
type Excess struct {
	Milli    *big.Rat // taken - (capacity + rate*(To-From) + given back), may be negative
	From, To int64
}

// String returns the excess in tokens.
func (e Excess) String() string {
	f, _ := new(big.Rat).Quo(e.Milli, Milli(bucket.Milli)).Float64()
	return fmt.Sprintf("%+.6f tokens in [%d, %d]", f, e.From, e.To)
}

// Worst returns the worst excess over all windows from <= to. One pass is
// enough: the excess of a window is the difference of two functions of its ends,
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
