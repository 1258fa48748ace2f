package prefetch

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// amounts are millitokens by limit: few, so they are searched one by one.
type amounts []amount

type amount struct {
	limit string
	milli int64
}

// of returns the amount of a limit.
func (a amounts) of(limit string) int64 {
	for i := range a {
		if a[i].limit == limit {
			return a[i].milli
		}
	}
	return 0
}

// add adds to the amount of a limit.
func (a *amounts) add(limit string, milli int64) {
	for i := range *a {
		if n := &(*a)[i]; n.limit == limit {
			n.milli += milli
			return
		}
	}
	*a = append(*a, amount{limit, milli})
}

// any reports whether any amount is not zero.
func (a amounts) any() bool {
	for i := range a {
		if a[i].milli != 0 {
			return true
		}
	}
	return false
}

// costs returns the amounts as a write names them.
func (a amounts) costs() []table.Cost {
	var out []table.Cost
	for _, n := range a {
		if n.milli != 0 {
			out = append(out, table.Cost{Limit: bucket.Limit{Name: n.limit}, Milli: n.milli})
		}
	}
	return out
}
