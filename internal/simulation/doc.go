// Package simulation holds no code: its tests run the whole system in one process and in virtual
// time. Limiters, the administration and the aggregator are the real ones. The table is the
// in-memory twin, at the end of a network that delays, loses and refuses calls. Shards are deleted
// by hand. A stream brings every change to the aggregator, late and twice. A seed determines a
// world: the same seed always runs the same one.
//
// After every write the judge checks the promises of docs/design.md:
//
//   - I1: no window admits more than the limit allows.
//   - I2: no write makes or loses tokens.
//   - I3: the shares of the shards are at most the whole.
//   - I4: callers learn the charge on every level of a cascade.
//   - I5: usage is the growth of the counters.
//
// A failing seed prints the command that runs it again. With -v that prints every step. The failure
// matrix is here too: every call site meets every fault.
package simulation
