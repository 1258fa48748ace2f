package limiter

import (
	"slices"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// notes are what this package keeps at the desk of a bucket.
type notes struct {
	brought atomic.Pointer[brought]
	warm    [2]atomic.Pointer[warm] // see keptAt
}

// brought are limits of a request, as they were passed and as they are stored. Neither is changed any more.
type brought struct {
	limits []Limit
	stored []bucket.Limit
}

// ownLimits returns limits that a request brings as they are stored, not to be changed; nil if it brings none.
// A busy process brings the same ones again and again: those that the last request for the bucket had need
// no second look.
func ownLimits(k *desk.Desk, limits []Limit) ([]bucket.Limit, error) {
	switch {
	case limits == nil:
		return nil, nil
	case len(limits) == 0:
		return nil, validate.Invalid("Limits", validate.Plain("empty"),
			"nil for the stored configuration, or at least one limit")
	case k == nil:
		return storedLimits("Limits", limits)
	}
	kept := &k.Notes.(*notes).brought
	if last := kept.Load(); last != nil && slices.Equal(last.limits, limits) {
		return last.stored, nil
	}
	stored, err := storedLimits("Limits", limits)
	if err == nil {
		kept.Store(&brought{slices.Clone(limits), stored})
	}
	return stored, err
}

// warm is configuration that holds from one instant until before another, epoch ms, and unless the
// records were dropped since it was worked out. It is not changed any more.
type warm struct {
	cfg         resolved
	from, until int64
	forgotten   int64 // how often the records had been dropped when they were taken
}

// keptAt returns where the configuration of a desk is kept: calls that bring limits along need fewer records.
func keptAt(k *desk.Desk, own bool) *atomic.Pointer[warm] {
	kept := &k.Notes.(*notes).warm
	if own {
		return &kept[1]
	}
	return &kept[0]
}

// keep notes what records come to that are all fresh.
func keep(k *desk.Desk, own bool, w warm) {
	if k != nil && w.until > w.from {
		keptAt(k, own).Store(&w)
	}
}
