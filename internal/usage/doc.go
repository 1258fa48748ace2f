// Package usage decides what a batch of changes means for the table: what to
// add to which usage snapshot, which buckets to refill, which to split, which
// lifetimes to mend.
//
// Fold orders the changes by bucket, Totals and Plan turn them into values that
// somebody else writes. Everything is pure: now is an argument, the output is
// sorted, and the same changes give the same output in whatever order different
// buckets come.
package usage
