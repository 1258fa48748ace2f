// Package table is the only place that knows how the single table is laid out. It has the keys,
// the attribute names, the items of every kind of record, and the conditional writes that change
// them. The Python zae-limiter shares this wire format.
//
// Package internal/item says what an item, a condition and a write are. Decoders return errors and
// never panic: what they read may have been written by anybody. Nothing here performs I/O or reads
// a clock.
package table
