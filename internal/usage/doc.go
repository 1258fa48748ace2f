// Package usage decides what a batch of changes means for the table: what to
// add to which usage snapshot, which buckets to refill, which to split, which
// lifetimes to mend.
//
// Fold orders the changes by bucket. Extend turns them into runs, which say where
// the counters of a shard stood before and after consecutive records; Totals sorts
// these by snapshot, and Total.Next decides, from what is known of the snapshots,
// what to write or to learn next. Decide plans everything else. Runs are what a
// tumbling window carries (State), and what longer windows owe is a list of
// snapshots that are ahead of them (Owed). Everything is pure: now is an argument,
// the output is sorted, and the same changes give the same output in whatever order
// different buckets come.
//
// What records that were lost had shown is made up for in three places: behind a mark
// in the same snapshot by the difference to it (tally.go), behind a mark in an earlier
// one by completing that (close.go), and where there is no mark by what the counters
// have grown by since the shard was created (beginning.go). When such records come
// after all, they are behind a mark (ahead.go).
package usage
