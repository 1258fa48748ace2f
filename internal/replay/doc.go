// Package replay delivers failed records again: batches that Lambda kept in the
// failed records bucket after hours of failing, and malformed records that the
// functions set aside. It decides and reports; objects, functions and the
// table are reached through interfaces that a program provides.
//
// A batch is handed to the function that gave it up, as an ordinary invocation with the payload
// that it had. Both functions know what they have done already. So nothing is counted or archived
// twice of a batch that was done in part, or that is replayed again because an answer was lost.
// An object is deleted only when the function has said that all of it is done.
//
// The aggregator counts by the differences of cumulative counters. Where it has counted
// later records of the same bucket shard and window, it has counted an earlier one with
// them, and does not do so again. Only what a bucket consumed before the first record
// that was counted of it may be missing, where its item does not say for certain when it
// was created. [Replayer.Inspect] says, before anything is delivered, how much that is.
package replay
