// Package table is the only place that knows how the single table is laid out:
// keys, attribute names, the items of every record kind, and the conditional
// writes that change them (the wire format shared with the Python zae-limiter).
//
// What an item, a condition and a write are is internal/item's. Decoders return
// errors and never panic: what they read may have been written by anybody.
// Nothing here performs I/O or reads a clock.
package table
