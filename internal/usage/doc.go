// Package usage decides the writes that follow from a batch of changes: the usage snapshots to
// write, the buckets to refill or split, the lifetimes to correct. Everything is pure: now is an
// argument, the output is sorted, and the same changes give the same output in whatever order
// different buckets come.
//
// Example: the counter of a bucket goes from 100 to 103, 104 and 110 at 14:10. Its three records
// are processed in these steps:
//
//	Fold            orders the changes by bucket shard, each once            fold.go
//	Extend, Part    one [Run] from 100 to 110; a tumbling window carries it  run.go, state.go
//	Totals          the hour of 14:00 will receive that run                  total.go
//	Total.Next      adds 10 to the hour, if its mark is at 100               step.go
//	Owed            the day of the 14th is no longer the sum of its hours    owed.go
//	Summing.Sum     sets the day to the sum of its hours                     sum.go
//
// A snapshot has a mark for each shard: the last record that it has counted, and the counters after
// it. Lost records are counted with the next record, by the difference to the mark. The mark is in
// the same hour (tally.go), or in an earlier one, which is completed first (complete.go). Without a
// mark, everything since the creation of the shard is counted (beginning.go). If a lost record
// arrives after all, a mark is already past it, and it counts nothing.
//
// Decide plans everything else: refills, lifetimes (plan.go) and reshardings (resharding.go,
// heat.go).
package usage
