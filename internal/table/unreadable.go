package table

import (
	"errors"
	"fmt"
	"math"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// ErrUnreadable means that an item with the key of a bucket holds data that this module cannot read.
var ErrUnreadable = errors.New("limiter: unreadable bucket")

// Discard removes a shard of a bucket, whether it can be read or not, while it is of the life and of
// the number of shards that it was read in. Other changes do not matter: it is to go.
func Discard(stored item.Item) item.Delete {
	return item.Delete{Key: item.KeyOf(stored),
		If: item.All(item.Exists(item.AttrPK), item.AsIn(stored, AttrGeneration), item.AsIn(stored, AttrShardCount))}
}

// notPositive is the error about a number of a limit that is 0 or less.
func notPositive(limit, field string, n int64) error {
	return fmt.Errorf("attribute %q is %d, want 1 to %d", attrLimit(limit, field), n, int64(math.MaxInt64))
}
