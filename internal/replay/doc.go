// Package replay delivers failed records again: batches that Lambda stored in the failed records
// bucket after hours of failing, and malformed records that the functions set aside. It decides and
// reports; a program provides the interfaces to objects, functions and the table.
//
// A batch is sent to the function that gave it up, as an ordinary invocation with its original
// payload. Both functions detect records that are already done. So nothing is counted or archived
// twice if a batch was partly done, or is replayed again because an answer was lost. An object is
// deleted only after the function has reported that all of it is done.
//
// The aggregator counts by the differences of cumulative counters. If it has counted later records
// of the same bucket shard and window, it has counted the earlier ones with them, and does not
// count them again. Only the consumption before the first counted record of a bucket may be
// missing, if its item does not show for certain when it was created. [Replayer.Inspect] reports
// how much that is before anything is delivered.
package replay
