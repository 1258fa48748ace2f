package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// LimitAttrs returns the attributes that a limit has in a bucket item.
func LimitAttrs(limit bucket.Limit) []string { return formOf(limit).names(limit) }

// Untouched holds while nobody has taken from a limit, nor given back, since the
// image; always for a limit that is stored in part.
func (b Shard) Untouched(limit string) item.Cond {
	i := b.State.Index(limit)
	if i < 0 {
		return item.All()
	}
	return formOf(b.State.Slots[i].Limit).untouched(b, i)
}

// Raise puts gifts into a bucket shard, by limit. It is a charge of nothing that ends at higher
// levels. It begins a new generation: else those who know the bucket would work on with the lower
// levels.
func Raise(image Shard, gifts map[string]bucket.Gift, now int64) item.Update {
	if gifts == nil {
		gifts = map[string]bucket.Gift{}
	}
	return Charge{Image: image, Now: now, Lifetime: KeepLifetime, Gifts: gifts}.Plan().Update
}
