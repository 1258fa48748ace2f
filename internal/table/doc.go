// Package table has the item of a bucket shard and the conditional writes that change it: the
// charge, and all other changes of levels, counters and shards. It defines the forms in which
// limits are stored.
//
// Package internal/item defines items, conditions and writes. Decoders return errors and never
// panic, because any client may have written the item. Nothing here performs I/O or reads a clock.
package table
