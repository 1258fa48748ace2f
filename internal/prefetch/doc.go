// Package prefetch keeps the tokens that one process prefetched from a bucket shard with a charge
// (table.Ahead), and grants the next requests from them without a write. It also computes the held
// tokens that a charge declares. It is pure: instants are arguments, and nothing here locks.
package prefetch
