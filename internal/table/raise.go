package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Raise puts gifts into a bucket shard, by limit. It is a charge of nothing that ends at higher
// levels. It begins a new generation: otherwise processes that know the bucket would go on with the
// lower levels.
func Raise(image Shard, gifts map[string]bucket.Gift, now int64) item.Update {
	if gifts == nil {
		gifts = map[string]bucket.Gift{}
	}
	return Charge{Image: image, Now: now, Lifetime: KeepLifetime, Gifts: gifts}.Plan().Update
}
