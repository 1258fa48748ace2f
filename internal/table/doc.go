// Package table is the only place that knows how the single table is laid out:
// keys, attribute names, the items of every record kind, and the conditional
// writes that change them (the wire format shared with the Python zae-limiter).
//
// Writes are values. A [Write] renders to the DynamoDB API's input types with
// every attribute name aliased, and applies to an item in memory with the same
// meaning, so that a twin of the table can execute exactly what would be sent.
// Decoders return errors and never panic: what they read may have been written
// by anybody. Nothing here performs I/O or reads a clock.
package table
