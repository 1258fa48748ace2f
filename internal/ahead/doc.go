// Package ahead is what one process holds of a bucket shard: tokens that it took ahead with a
// charge (table.Ahead), to grant its next requests from them without a write. It says what a
// charge has to tell of that, and is pure: instants are arguments, and nothing here locks.
package ahead
