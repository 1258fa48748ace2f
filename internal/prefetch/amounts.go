package prefetch

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// amounts are millitokens by limit.
type amounts = sums[int64]

// sums are by limit. There are few limits, so a linear search is enough.
type sums[T int64 | float64] []sum[T]

type sum[T int64 | float64] struct {
	limit string
	milli T
}

// of returns the sum of a limit.
func (a sums[T]) of(limit string) T {
	for i := range a {
		if a[i].limit == limit {
			return a[i].milli
		}
	}
	return 0
}

// add adds to the sum of a limit.
func (a *sums[T]) add(limit string, milli T) {
	for i := range *a {
		if n := &(*a)[i]; n.limit == limit {
			n.milli += milli
			return
		}
	}
	*a = append(*a, sum[T]{limit, milli})
}

// any reports whether any sum is not zero.
func (a sums[T]) any() bool {
	for i := range a {
		if a[i].milli != 0 {
			return true
		}
	}
	return false
}

// costs returns the sums in the form that a write needs.
func (a sums[T]) costs() []table.Cost {
	var out []table.Cost
	for _, n := range a {
		if n.milli != 0 {
			out = append(out, table.Cost{Limit: bucket.Limit{Name: n.limit}, Milli: int64(n.milli)})
		}
	}
	return out
}
