package table

import "github.com/zeroae/zae-limiter-go/internal/bucket"

// drawBits is the number of random low bits of a generation, see [Began]. With more, the number has
// more than 16 digits, and a bucket of eight limits more than 1 KB.
const drawBits = 12

// lastInstant is the last instant that fits above the random bits.
const lastInstant = 1<<(63-drawBits) - 1

// Began returns when a generation began, in epoch milliseconds, by its writer's clock or a little
// later. For no generation it is 0.
//
// A generation is one life of an item under one set of rules. A bound from an image holds within
// its generation, so an item must never have the same generation again:
//
//	No two lives or rules of one item have the same number.
//
// A number is an instant, in epoch milliseconds, above 12 bits that were drawn at random when the
// item was created.
//
//   - Within a life the instant grows: it is the instant of the write, or one more than
//     the last, whichever is later. So steps may share a millisecond, and clocks may differ.
//   - After a merge ends a life, the surviving shard continues at an instant later than both
//     shards' instants. A later split begins there, so the next life of the same shard is later
//     than all earlier ones.
//   - After a life ends unnoticed (deleted by hand, or by TTL), the next one differs in the
//     random bits. Create and Restore draw at random. Split draws from the generation of the
//     shard that it splits, which differs for each split. For an item of another client, the
//     bits are drawn from its refill instant, which is a condition of the write. Only in this
//     case can two lives share a number, once in 4096 times, and only if different clocks make
//     both begin in the same millisecond.
//
// Example, all within the millisecond 100: shard 0 splits (shard 0: 101, shard 1: 101). Shard 1 is
// raised twice (102, 103) and merged into shard 0 (104, not 102). Shard 0 splits again (105, 105).
// An image of shard 1 from its first life, say 103, is refused. If the merge had looked only at
// shard 0, the numbers would be 102 and 103, and shard 1 would be 103 again.
func Began(generation int64) int64 { return generation >> drawBits }

// nextGeneration returns the number of the item's next generation. It begins now, and after the
// generations of the others, whose lives it ends. Usage distinguishes generations by one byte (see
// [GenerationByte]), so a number with the same byte as before is skipped.
func nextGeneration(b Shard, now int64, others ...Shard) int64 {
	next := begin(b.drawn(), now, append(others, b)...)
	for GenerationByte(next) == GenerationByte(b.Generation) && Began(next) < lastInstant {
		next += 1 << drawBits
	}
	return next
}

// begin returns the number of a generation that begins now, and after every shard in after.
func begin(draw uint64, now int64, after ...Shard) int64 {
	instant := now
	for _, b := range after {
		instant = max(instant, bucket.AddSat(Began(b.Generation), 1))
	}
	if instant > lastInstant { // another writer has left it: none of our instants is later
		instant = now
	}
	return min(max(instant, 1), lastInstant)<<drawBits | int64(draw&(1<<drawBits-1))
}

// drawn returns the random bits of the image's life.
func (b Shard) drawn() uint64 {
	if b.Generation > 0 {
		return uint64(b.Generation)
	}
	return scatter(b.State.RF)
}

// scatter derives bits from a number: adjacent numbers give different ones.
func scatter(n int64) uint64 { return uint64(n) * 0x9E3779B97F4A7C15 >> (64 - drawBits) }

// GenerationByte reduces a generation to a byte. It is 0 only for 0, as in items of other clients;
// of other pairs, one in 255 shares its byte.
func GenerationByte(generation int64) uint8 {
	if generation == 0 {
		return 0
	}
	h := uint64(generation) * 0x9E3779B97F4A7C15
	return uint8(1 + (h>>32)%255)
}
