package buckettest

import (
	"fmt"

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
