package usage

import (
	"cmp"
	"slices"
)

// Owed names a day that may lack counts of its hours since it was last summed, and the month around
// it. In general: a window of the second finest kind, and the longer ones around it.
type Owed struct {
	Bucket
	Start int64 // of the window, epoch milliseconds
}

// MergeOwed returns all owed sums, sorted and without duplicates. It takes ownership of owed.
func MergeOwed(owed []Owed) []Owed {
	slices.SortFunc(owed, func(a, b Owed) int {
		return cmp.Or(a.Bucket.Compare(b.Bucket), cmp.Compare(a.Start, b.Start))
	})
	return slices.Compact(owed)
}

// Owed returns the sum that is owed when a window of the bucket that begins at start is counted;
// next is the second finest kind.
func (t *Total) Owed(start int64, next Window) Owed {
	return Owed{t.Bucket, next.Start(start)}
}
