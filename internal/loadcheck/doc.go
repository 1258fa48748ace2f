// Package loadcheck has the parts that all programs which load the system share: the command load
// of the tool, the demo, the end-to-end tests and the benchmarks. Clients record their observations
// in a [Book]. [Worst] checks from the outside whether a limit has ever admitted more than it
// promises (design I1). It is independent of buckets, shards and writes: its only input is the
// clients' observations, and it examines every window of time.
//
// The promise: for every pair of instants a <= b,
//
//	admitted(a,b) <= capacity + refill(a,b) + returned(a,b)
//
// # What it proves
//
// A client only knows that its request took effect between sending and the answer. So uncertainty
// always counts in favour of the limiter. A grant counts as admitted in a window only if it was
// sent and answered within it. A return counts if it may have happened within it.
//   - A reported excess is real: whatever the true instants were, more was
//     admitted in that window than the limit allows.
//   - Every excess that these instants prove is found, even a thousandth of a token:
//     a worst window begins when a grant was sent and ends when one was answered, and
//     the check covers all such windows.
//   - An excess that only the true instants would show is not found. Calls that take 5 ms
//     hide at most the refill of 10 ms, and the grants of calls that cross the window's
//     ends.
//
// Example: 10 tokens, and 1 more per second. Two clients are granted 10 each, one from 0 to 5 ms,
// the other from 20 to 25 ms. In the window from 0 to 25 ms, 20 tokens are granted and 10.025
// allowed: 9.975 too many.
//
// The check assumes that only the clients whose events are given return tokens, reset a bucket or
// credit it meanwhile, and that Bound is true.
//
// # Events
//
//   - A granted request is a Grant of the requested cost, whatever was settled later.
//   - Tokens given back, by a rollback or by an adjustment to less, are a Return, even
//     if the answer was lost: they may have been given back.
//   - A request that was not granted, but may have taken tokens and given them back,
//     is a Passing: it failed, or a parent denied it.
//   - An adjustment to more is not an event. No decision admitted it, and it can only delay
//     later grants. Leaving it out makes the check milder, never wrong.
//   - A request whose answer was lost is not an event, unless its tokens are given back:
//     no client was admitted.
//
// All arithmetic is exact: 128-bit integers, rounded only for display.
package loadcheck
