// Package known is what one process knows of a bucket, and what it decides from that.
//
// A [Bucket] remembers the last image of every shard, what this process has under way,
// and what others seem to take. [Bucket.Decide] is where a request is granted a write, sent
// to look, or denied: to find out why something was denied, begin there. The package calls
// nobody and waits for nobody; instants and random numbers are arguments.
//
// Words: a [Want] is what a request needs of one bucket, limits and costs. An [Attempt] is what
// that request has done so far. A [Choice] is what to do next. A [Planned] is the write that a
// choice leads to.
//
// Every exported method of a Bucket locks it. Its facts are behind the lock: a function that
// has a value of type *facts holds the lock.
package known
