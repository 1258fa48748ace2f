package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// LimitAttrs returns the attributes that a limit has in a bucket item.
func LimitAttrs(limit bucket.Limit) []string {
	if limit.Lends() {
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
	if limit.Renews() {
		for _, f := range quotaFields {
			out = append(out, quotaAttr(limit.Name, f))
		}
	}
	if limit.Soft {
		out = append(out, attrSoft(limit.Name))
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
	if b.State.Slots[i].Lends() {
		return item.All(asTaken(slotsTaken(b.State.Slots[i]))...)
	}
	return item.Compare(attrLimit(limit, fieldUsed), item.Eq, b.counter(nil, b.State.Slots[i], 0))
}

// Raise puts gifts into a bucket shard, by limit. It is a charge of nothing that ends at
// higher levels; because those who know the bucket from before would work on with the lower
// ones, it begins a new generation.
func Raise(image Shard, gifts map[string]bucket.Gift, now int64) item.Update {
	if gifts == nil {
		gifts = map[string]bucket.Gift{}
	}
	return Charge{Image: image, Now: now, Life: KeepLifetime, Gifts: gifts}.Plan().Update
}
