// Package stream decodes the payload that Lambda delivers for the table's
// stream into changes of buckets.
//
// It reads only what the aggregator needs, straight from the bytes: no
// reflection, no maps of attribute values. Whatever a single record holds, the
// others are not affected: a record that cannot be understood is set aside with
// its sequence number, the reason and its bytes, and the rest proceed. Only a
// payload that is not JSON is an error. Nothing here performs I/O, reads a
// clock or panics.
package stream
