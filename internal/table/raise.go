package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Drain renders the write after which no rate of a bucket shard holds anything until an instant,
// see [bucket.State.Drains]. It sets the level instead of lowering it by a difference, so drains of
// several processes do not add up, and a repeated write does no harm. It begins a new generation,
// like Raise, and is refused if others have taken so much that the level may be lower already. ok
// is false if there is nothing to write.
func Drain(image Shard, until, now int64) (u item.Update, ok bool) {
	gifts := image.State.At(now).Drains(until)
	if len(gifts) == 0 {
		return u, false
	}
	return Raise(image, gifts, now), true
}

// Raise puts gifts into a bucket shard, by limit. It is a charge of nothing that ends at higher
// levels. It begins a new generation: otherwise processes with an image of the bucket would
// continue with the lower levels.
func Raise(image Shard, gifts map[string]bucket.Gift, now int64) item.Update {
	if gifts == nil {
		gifts = map[string]bucket.Gift{}
	}
	return Charge{Image: image, Now: now, Lifetime: KeepLifetime, Gifts: gifts}.Plan().Update
}
