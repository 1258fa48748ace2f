package prefetch

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The held tokens in an item are never too few, but may be too many: a crash or a lost answer
// leaves its own in it. A process that sees far too many mends the item.

// See takes note of an image of the shard.
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

// maxMarks bounds how many images are kept: some older than the held tokens, and some for later
// ones. They span two lives or more.
const maxMarks = 20

// spent returns the latest image of the generation of which all is spent at an instant, nil
// if there is none.
func (h *Holding) spent(generation, at int64) (latest *table.Shard) {
	for i := range h.marks {
		if m := &h.marks[i]; m.Generation == generation && m.State.HeldUntil <= at {
			latest = m
		}
	}
	return latest
}

// mendFrom is how much of a capacity, in percent, must be wrongly declared before it is mended. It
// must be a quarter of the unspent tokens, too: for a life, a mend counts all of them twice.
const mendFrom = 5

// mendAgain is how many lives a generation lasts before it is mended.
const mendAgain = 3

// mends reports whether the item, at the instant of the image, declared far more held tokens of
// some limit than there could be. Others may have declared more since, so the age of an image is no
// reason. Nor are the tokens held at the last mend, which count for a while together with later
// ones.
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
