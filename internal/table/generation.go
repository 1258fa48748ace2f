package table

import "github.com/zeroae/zae-limiter-go/internal/bucket"

// drawBits are the lowest bits of a generation, see [Began]. With more of them the number
// has more than 16 digits, and a bucket of eight limits more than 1 KB.
const drawBits = 12

// lastInstant is the last that fits above the drawn bits.
const lastInstant = 1<<(63-drawBits) - 1

// Began returns when a generation began, epoch milliseconds, by the clock of its writer or a little
// later. It is 0 for none.
//
// A generation is one life of an item under one set of rules. A bound from an image holds within
// its generation, so no generation of an item may come back:
//
//	No two lives or rules of one item have the same number.
//
// A number is an instant, epoch milliseconds, and 12 bits below it that were drawn when the item
// was made.
//
//   - Within a life the instant grows: it is the instant of the write, or one more than
//     the last, whichever is later. So steps may share a millisecond, and clocks may differ.
//   - A life that ends in a merge ends before the instant of the surviving shard, which is
//     later than the instants of both. A later split begins there, so the next life of the
//     same shard is later than all earlier ones.
//   - A life that ended unnoticed (deleted by hand, or by TTL) differs from the next one
//     in the drawn bits. Create and Restore draw at random; Split draws from the
//     generation of the shard that it splits, which is another for each split; an item
//     of another client draws from its refill instant, which is a condition of the write.
//     Only here two lives share a number once in 4096 times, and only if clocks
//     that differ make both begin in the same millisecond.
//
// Example, all within the millisecond 100: shard 0 splits (shard 0: 101, shard 1: 101). Shard 1 is
// raised twice (102, 103) and merged into shard 0 (104, not 102). That splits again (105, 105). An
// image of shard 1 from its first life, say 103, is refused. Had the merge looked at shard 0 alone,
// its numbers would be 102 and 103, and shard 1 would be 103 once more.
func Began(generation int64) int64 { return generation >> drawBits }

// nextGeneration returns the number of the item's next generation. It begins now, and later than
// the others' generations, whose lives it ends. Usage distinguishes generations by one byte (see
// [GenerationByte]), so a number with the same byte as before is skipped.
func nextGeneration(b Shard, now int64, others ...Shard) int64 {
	next := begin(b.drawn(), now, append(others, b)...)
	for GenerationByte(next) == GenerationByte(b.Generation) && Began(next) < lastInstant {
		next += 1 << drawBits
	}
	return next
}

// begin returns the number of a generation that begins now, and later than every shard in after.
func begin(draw uint64, now int64, after ...Shard) int64 {
	instant := now
	for _, b := range after {
		instant = max(instant, bucket.AddSat(Began(b.Generation), 1))
	}
	if instant > lastInstant { // foreign hands have left it: nothing of ours is later
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

// scatter draws from a number: others next to it draw something else.
func scatter(n int64) uint64 { return uint64(n) * 0x9E3779B97F4A7C15 >> (64 - drawBits) }

// GenerationByte reduces a generation to a byte. It is 0 only for 0, which items made by
// other clients have; of others, one in 255 pairs share theirs.
func GenerationByte(generation int64) uint8 {
	if generation == 0 {
		return 0
	}
	h := uint64(generation) * 0x9E3779B97F4A7C15
	return uint8(1 + (h>>32)%255)
}
