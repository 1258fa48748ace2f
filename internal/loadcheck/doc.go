// Package loadcheck has the common parts of everything that loads the system: the command load of the
// tool, the demo, the end-to-end tests and the benchmarks. Clients record their observations in a
// [Book]. [Worst] checks from the outside whether a limit has ever admitted more than it promises
// (design I1). It knows nothing of buckets, shards or writes: its input is the clients'
// observations, and it looks at every window of time.
//
// The promise: for every pair of instants a <= b,
//
//	admitted(a,b) <= capacity + refill(a,b) + returned(a,b)
//
// # What it proves
//
// A client knows only that its request took effect between sending and the answer. So each side is
// counted in favour of the limiter. A grant counts as admitted in a window only if it was sent and
// answered within. A return counts if it may have happened within.
//
//   - A reported excess is real: whatever the true instants were, more was
//     admitted in that window than the limit allows.
//   - No excess that these instants prove is missed, be it a thousandth of a token:
//     a worst window begins when a grant was sent and ends when one was answered, and
//     the check covers all such windows.
//   - An excess that only the true instants would show is not found. Calls that take 5 ms
//     hide at most the refill of 10 ms, and the grants of calls that straddle the window's
//     ends.
//
// Example: 10 tokens, and 1 more per second. Two clients are granted 10 each, one asking from 0 to
// 5 ms, the other from 20 to 25 ms. The window from 0 to 25 ms has 20 tokens, and 10.025 are
// allowed: 9.975 too much.
//
// The check assumes that only the clients whose events are given return tokens, reset a bucket or
// credit it meanwhile, and that Bound is true.
//
// # Events
//
//   - A granted request is a Grant of the requested cost, whatever was settled later.
//   - Tokens given back, by a rollback or by an adjustment to less, are a Return, also
//     when the answer was lost: they may have been given back.
//   - A request that was not granted, but may have taken tokens and given them back,
//     is a Passing: one that failed, or one that a parent has denied.
//   - An adjustment to more is no event. No decision admitted it, and it can only delay
//     later grants. Leaving it out makes the check milder, never wrong.
//   - A request whose answer was lost is no event, if nobody gives its tokens back:
//     nothing was admitted to anybody.
//
// Everything here is exact: integers of 128 bits, rounded for display only.
package loadcheck
