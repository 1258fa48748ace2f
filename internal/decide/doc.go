// Package decide has what one process knows of a bucket, and decides from that.
//
// A [Bucket] remembers the last image of every shard, the requests that wait and the calls made for
// them, and what others seem to take. Its steps are [Bucket.Ask], [Bucket.Advance], [Bucket.Returned],
// [Bucket.Done], [Bucket.Overdue], [Bucket.Leave] and [Bucket.Abort]. Each takes in what has happened, and
// lists in [Effects] what the driver has to do. Whether a request gets a write, a look or a denial is
// decided in decide.go: to find out why something was denied, begin there. The package calls nobody and
// waits for nobody; instants and random numbers are arguments.
//
// Words: a [Want] is what a request needs of one bucket, limits and costs. A [Waiter] is that request from
// when it asks until it is answered, an [Attempt] what it has done so far. A [Choice] is what to do next. A
// [Planned] is the write that a choice leads to, and a [Call] is that write for a group of waiters, until it
// has landed. A [Grant] is what a request was given.
//
// Every exported method of a Bucket locks it. Its facts are behind the lock: a function that
// has a value of type *facts holds the lock.
package decide
