package ahead

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What an item says of what is held is only ever too high: what is left of a crash or of a
// lost answer stays in it. Who sees that it says much more than can be held mends it.

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

// maxMarks bounds how many images are kept: some that are older than what is held, and those
// that will be. They span two lives or more.
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

// mendFrom is how much of a capacity, in percent, must be wrongly told before it is mended. It
// must be a quarter of what may be held, too: for a life, a mend tells all of that twice.
const mendFrom = 5

// mendAgain is how many lives a generation lasts before it is mended.
const mendAgain = 3

// mends reports whether the item said of some limit, at the instant of the image, that much
// more might be held than could be. What others have told since the image is not known, so
// the age of an image is no reason. Nor is what was held when the item was last mended, which
// is told for a while beside what was told since.
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
		wrong := sl.Held + left.of(sl.Name) - h.told.of(sl.Name) - unspent
		if wrong > max(image.State.Rate(i).Capacity/100*mendFrom, unspent/4) {
			return true
		}
	}
	return false
}
