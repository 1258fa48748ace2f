// Package bucket is the arithmetic of token buckets whose limits share one clock: refill with
// remainders, take, wait, shares of a sharded bucket, and splitting one shard into two.
//
// Everything here is pure. Instants are epoch milliseconds, levels and capacities are millitokens,
// periods are milliseconds, all int64; products are formed in 128 bits and results saturate instead
// of overflowing. The package imports only the standard library and package calendar, reads no
// clock and performs no I/O.
//
// A level and its remainder stand for the exact rational
//
//	tokens + rest/period   with 0 <= rest < period
//
// so that refilling in many small steps credits exactly as much as one large step (design D2).
package bucket
