package bucket

import "math/bits"

// Share returns the part of whole that shard has when the bucket has shards shards, by repeated
// halving. At every doubling of n to 2n, shard k keeps the larger half and shard k+n gets the
// smaller one. Each shard computes its share from its own id and count. The shares of all existing
// shards add up to whole exactly, also while some have doubled and others have not (design D5, I3).
// Example: of 10, shards 0 to 3 have 3, 3, 2 and 2. A count below one is one. A count that is no
// power of two is rounded up, which can only make shares smaller.
func Share(whole int64, shard, shards int) int64 {
	for size := 1; size < shards; size *= 2 {
		if shard&size != 0 {
			whole /= 2
		} else {
			whole -= whole / 2
		}
	}
	return whole
}

// Halve divides a level into two parts that add up to it; keep is the larger, by at
// most one millitoken.
func Halve(level int64) (keep, moved int64) {
	moved = level >> 1 // floor, also for debt
	return level - moved, moved
}

// CanSplit reports whether doubling the shards leaves every limit's smallest
// share with at least one token of capacity and some refill, and the count at
// or below maxShards. A bucket of more limits than one write can name stays whole.
func (s State) CanSplit(maxShards int) bool {
	next := 2 * s.Count()
	return next <= maxShards && len(s.Slots) <= MaxSlots && s.Holds(next, nil)
}

// Split doubles the shard: shard k of n becomes shards k and k+n of 2n. Its tokens, debt and
// remainders included, are divided between them; the clock is the same for both. The first keeps
// the counter of consumption and the held tokens, and the other gets the tokens for which the first
// then has no room. A first share smaller than the held tokens begins below zero by the difference.
// Call Split on a state refilled to now, with no level above its capacity: then neither half is
// above its own. wcu starts full on both, because each is a partition of its own that must prove
// itself hot before it doubles again.
func (s State) Split() (keep, moved State) {
	n := s.Count()
	keep, moved = s, s
	keep.Shards, moved.Shards = 2*n, 2*n
	moved.Shard, moved.HeldUntil = s.Shard+n, 0
	keep.Slots = append([]Slot(nil), s.Slots...)
	moved.Slots = append([]Slot(nil), s.Slots...)
	for i, sl := range s.Slots {
		m := &moved.Slots[i]
		m.Used, m.Held, m.Ended = 0, 0, 0
		sl.kind().split(s, keep, moved, i)
		if m.Held > 0 {
			moved.HeldUntil = s.HeldUntil
		}
	}
	return keep, moved
}

// Merge folds another shard into this one, which has count shards from then on. The tokens of both
// add up, debt and remainders included, up to the new share. If the other is the sibling that was
// split off, the new share is the sum of both shares. Both states must be good at the same instant.
// Each shard keeps its own counters: the other's end with it. The other's held tokens are held of
// this one from then on. wcu is this shard's.
func (s State) Merge(other State, count int) State {
	out := s
	out.Shards = count
	if until := other.HeldAfter(s.RF); until > s.RF {
		out.HeldUntil = max(s.HeldUntil, until)
	}
	out.Slots = append([]Slot(nil), s.Slots...)
	for i := range out.Slots {
		sl := &out.Slots[i]
		if j := other.Index(sl.Name); j >= 0 && sl.Name != WCU {
			sl.kind().merge(out, i, other, j)
		}
	}
	return out.At(out.RF) // no more than the share
}

// Holds reports whether, with that many shards, the smallest share of every limit still has at
// least one token of capacity and some refill. It must also hold the largest request, in
// millitokens by slot; nil: there is none.
func (s State) Holds(count int, largest []int64) bool {
	if s.Undivided && count > 1 {
		return false
	}
	for i, sl := range s.Slots {
		if sl.Name == WCU {
			continue
		}
		least := int64(Milli)
		if largest != nil {
			least = max(least, largest[i])
		}
		smallest := sl.least()
		if sl.Capacity/int64(count) < least || smallest.Capacity/int64(count) < Milli || !smallest.divides(count) {
			return false
		}
	}
	return true
}

// Fitting returns the largest count of shards, a power of two up to the bucket's own, at which
// every share can still hold a token. That is the bucket's count, unless a limit was lowered or
// another client has raised the count beyond it.
func (s State) Fitting() int {
	n := 1
	for 2*n <= s.Count() && s.Holds(2*n, nil) {
		n *= 2
	}
	return n
}

// SplitParent returns the shard that shard is split from: its id without the
// highest bit. Shard 0 has no parent and is returned itself.
func SplitParent(shard int) int { return shard &^ highBit(shard) }

// CountWith returns the count that the parent of shard has once it has split
// shard off: twice the highest bit of shard. It is 1 for shard 0.
func CountWith(shard int) int { return max(2*highBit(shard), 1) }

// highBit returns the highest power of two in n, 0 for 0.
func highBit(n int) int { return 1 << bits.Len(uint(n)) >> 1 }
