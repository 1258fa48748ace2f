// Package decide holds one process's knowledge of a bucket, and makes the decisions about it.
//
// A [Bucket] remembers the last image of every shard, the waiting requests and the calls made for
// them, and an estimate of what others take. Its steps are [Bucket.Ask], [Bucket.Advance],
// [Bucket.Returned], [Bucket.Done], [Bucket.Overdue], [Bucket.Leave] and [Bucket.Abort]. Each
// handles an event, and lists in [Effects] what the driver has to do. decide.go decides whether a
// request gets a write, a look or a denial: to find out why something was denied, begin there. The
// package makes no calls and never blocks on anything but its lock; instants and random numbers are
// arguments.
//
// Words: a [Want] is what a request needs of one bucket: limits and costs. A [Waiter] is that
// request from the time it asks until it is answered, and an [Attempt] is its history so far. A
// [Choice] is the next step. A [Planned] is the write that carries out a choice, and a [Call] is
// that write for a group of waiters, until it has landed. A [Grant] is the result for a request
// that is granted.
//
// Every exported method of a Bucket locks it. Its facts are behind the lock: a function that has a
// value of type *facts holds the lock.
package decide
