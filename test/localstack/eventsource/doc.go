// Package eventsource acts as a Lambda event source mapping on a DynamoDB stream.
//
// The stream of an emulator is polled, each record filtered, put into a lane
// (virtual shard x parallelization factor), batched, and delivered to the
// function. A pure state machine, lane, decides what follows from the function's
// answer. It takes the time as an argument and performs nothing; its rules are from
// the AWS documentation:
//
//   - A lane has one invocation at a time, and delivers in stream order.
//
//   - A batch goes out when it is full (count or 6 MB) or its window is over.
//
//   - The lowest reported sequence number is the checkpoint: everything before
//     it is done, everything from it is delivered again.
//
//   - A function error, a malformed answer, an empty, missing or unknown
//     identifier fail the whole batch.
//
//   - Bisecting halves a batch that failed as a whole; with a partial answer
//     the cut is at the checkpoint. Neither uses up retries.
//
//   - A batch out of retries, and records that are too old, are given up, and
//     the lane goes on.
//
//   - With a tumbling window a batch holds records of one window, by their time;
//     it comes with the state that the invocation before it returned. A window
//     ends, with an invocation of its own, when a record of a later one comes or
//     some time after its end, or at once when its state is above 1 MB; until
//     this invocation has succeeded nothing else is delivered. An answer without a state
//     fails the batch.
//
// Where the documents are silent the harsher reading is taken. An answer that
// names the first record of the batch is no cut. So the whole batch is retried,
// uses up a retry, and is given up as a whole in the end.
package eventsource
