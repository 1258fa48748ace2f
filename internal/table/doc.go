// Package table has the item of a bucket shard, and the conditional writes that change it: the charge,
// and all else that happens to levels, counters and shards. It knows in which forms limits are kept.
//
// Package internal/item says what an item, a condition and a write are. Decoders return errors and
// never panic: what they read may have been written by anybody. Nothing here performs I/O or reads
// a clock.
package table
