package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// LimitAttrs returns the attributes that a limit has in a bucket item.
func LimitAttrs(limit bucket.Limit) []string {
	if limit.AtOnce {
		var out []string
		for _, a := range slotsAttrs(bucket.Slot{Limit: limit}) {
			out = append(out, a.Name)
		}
		return out
	}
	out := make([]string, 0, len(fields)+2)
	for _, f := range fields {
		out = append(out, attrLimit(limit.Name, f))
	}
	if limit.Quota() {
		for _, f := range quotaFields {
			out = append(out, quotaAttr(limit.Name, f))
		}
	}
	return append(out, attrHeld(limit.Name), attrEnded(limit.Name))
}

// Untouched holds while nobody has taken from a limit, nor given back, since the
// image; always for a limit that is stored in part.
func (b Shard) Untouched(limit string) item.Cond {
	i := b.State.Index(limit)
	if i < 0 {
		return item.All()
	}
	if b.State.Slots[i].AtOnce {
		return item.All(asTaken(slotsTaken(b.State.Slots[i]))...)
	}
	return item.Compare(attrLimit(limit, fieldUsed), item.Eq, b.counter(b.State.Slots[i], 0))
}

// Raise puts tokens into a bucket shard that nobody has given back: gifts are
// millitokens by limit. No level rises above its capacity, less what is held of it then. It
// is a charge of nothing that starts from higher levels; because those who know the bucket
// from before would work on with the lower ones, it begins a new generation.
func Raise(image Shard, gifts map[string]int64, now int64) item.Update {
	raised := image
	at := image.State.At(now)
	raised.State.Slots = slices.Clone(image.State.Slots)
	for i := range raised.State.Slots {
		sl := &raised.State.Slots[i]
		room := bucket.SubSat(at.Top(i), at.Slots[i].Tokens)
		switch gift := min(gifts[sl.Name], room); {
		case gift > 0 && sl.Held > 0 && image.State.SomeHeld(image.State.RF) && !at.SomeHeld(at.RF):
			// What was held is over, so it bounds what has been refilled, but no gift.
			since := bucket.SubSat(at.RF, image.State.RF)
			level := bucket.AddSat(at.Slots[i].Tokens, gift)
			sl.Tokens, sl.Held = bucket.SubSat(level, bucket.Potential(sl.Rest, at.Rate(i), since)), 0
		case gift > 0:
			sl.Tokens = bucket.AddSat(sl.Tokens, gift)
		}
	}
	u := Charge{Image: raised, Now: now, Life: KeepLifetime}.Plan().Update
	if !slices.ContainsFunc(u.Set, func(a item.Attr) bool { return a.Name == attrGeneration }) {
		u.Set = append(u.Set, item.Attr{Name: attrGeneration, Value: item.N(nextGeneration(image, now))})
	}
	return u
}
