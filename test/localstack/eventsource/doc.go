// Package eventsource acts as a Lambda event source mapping on a DynamoDB stream.
//
// It polls the stream of an emulator, filters each record, puts it into a lane (virtual shard x
// parallelization factor), forms batches, and delivers them to the function. A pure state machine,
// lane, decides what follows from the function's answer. The time is its argument, and it performs
// nothing; its rules are from the AWS documentation:
//
//   - A lane has one invocation at a time, and delivers in stream order.
//
//   - A batch is sent when it is full (count or 6 MB) or its window is over.
//
//   - The lowest reported sequence number is the checkpoint: everything before
//     it is done, everything from it on is delivered again.
//
//   - A function error, a malformed answer, or an empty, missing or unknown
//     identifier fails the whole batch.
//
//   - Bisecting halves a batch that failed as a whole; with a partial answer,
//     the cut is at the checkpoint. Neither counts as a retry.
//
//   - A batch without retries left, and records that are too old, are given up,
//     and the lane continues.
//
//   - With a tumbling window, a batch holds records of one window, by their time;
//     it includes the state returned by the previous invocation. A window ends,
//     with a separate invocation, when a record of a later one arrives, some time
//     after its end, or immediately if its state exceeds 1 MB. Until this invocation
//     has succeeded, nothing else is delivered. An answer without a state fails the
//     batch.
//
// If the documentation is silent, the stricter interpretation applies. An answer that names the
// first record of the batch is not a cut. So the whole batch is retried, which counts as a retry,
// and finally given up as a whole.
package eventsource
