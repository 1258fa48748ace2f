// Package simulation holds no code: its tests play the whole system in one process and in virtual
// time. Limiters, the administration and the aggregator are the real ones. The table is the
// in-memory twin, at the end of a network that delays, loses and refuses calls. Shards are
// deleted by hand. A stream brings every change to the aggregator, late and twice. One seed is
// one world, and the same seed plays the same world.
//
// After every write the judge checks what docs/design.md promises:
//
//   - I1: no window admits more than the limit allows.
//   - I2: no write makes or loses tokens.
//   - I3: the shares of the shards are at most the whole.
//   - I4: callers are told what was charged on every level of a cascade.
//   - I5: usage is the growth of the counters.
//
// A failing seed prints the command that plays it again. With -v that prints every
// step. The failure matrix is here too: every call site meets every fault.
package simulation
