package prefetch

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The held tokens stored in an item are never too few, but may be too many: a crash or a lost
// answer leaves its own behind. A process that sees far too many mends the item.

// See records an image of the shard.
func (h *Holding) See(image table.Shard, life int64) {
	h.image = image.State
	h.pass()
	if n := len(h.marks); n > 0 {
		last := h.marks[n-1]
		switch {
		case last.Generation != image.Generation:
			h.marks = h.marks[:0]
		case image.State.RF-last.State.RF < life/8:
			return
		case n == maxMarks:
			h.marks = slices.Delete(h.marks, 0, 1)
		}
	}
	h.marks = append(h.marks, image)
}

// maxMarks bounds the number of images kept: some older than the held tokens, and some for later
// ones. They span at least two lives.
const maxMarks = 20

// spent returns the latest image of the generation whose tokens are all spent at an instant, or
// nil.
func (h *Holding) spent(generation, at int64) (latest *table.Shard) {
	for i := range h.marks {
		if m := &h.marks[i]; m.Generation == generation && m.State.HeldUntil <= at {
			latest = m
		}
	}
	return latest
}

// mendFrom is how much of a capacity, in percent, must be wrongly declared before it is mended. It
// must also be a quarter of the unspent tokens, because a mend counts all of them twice for one
// life.
const mendFrom = 5

// mendAgain is the age, in lives of prefetched tokens, from which a generation is mended.
const mendAgain = 3

// mends reports whether the item, when the image was read, declared far more held tokens of some
// limit than could exist. An old image is no reason to mend, as others may have declared more
// since. Nor are the tokens held at the last mend, which count together with later ones for a
// while.
func (h *Holding) mends(image table.Shard, left amounts, life int64) bool {
	at := image.State.RF
	if at-table.Began(image.Generation) < mendAgain*life {
		return false
	}
	spent := h.spent(image.Generation, at)
	for i, sl := range image.State.Slots {
		unspent := sl.Held
		if spent != nil && spent.State.Index(sl.Name) >= 0 {
			unspent = min(unspent, max(0, sl.Used-spent.State.Slots[spent.State.Index(sl.Name)].Used))
		}
		wrong := sl.Held + left.of(sl.Name) - h.declared.of(sl.Name) - unspent
		if wrong > max(image.State.Rate(i).Capacity/100*mendFrom, unspent/4) {
			return true
		}
	}
	return false
}
