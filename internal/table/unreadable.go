package table

import (
	"errors"
	"fmt"
	"math"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// ErrUnreadable means that an item with the key of a bucket cannot be read by this module.
var ErrUnreadable = errors.New("limiter: unreadable bucket")

// Discard removes a shard of a bucket, readable or not, if its life and shard count are unchanged
// since it was read. Other changes do not matter, because it is to be removed.
func Discard(stored item.Item) item.Delete {
	return item.Delete{Key: item.KeyOf(stored),
		If: item.All(item.Exists(item.AttrPK), item.AsIn(stored, AttrGeneration), item.AsIn(stored, AttrShardCount))}
}

// notPositive is the error for a number of a limit that must be positive.
func notPositive(limit, field string, n int64) error {
	return fmt.Errorf("attribute %q is %d, want 1 to %d", attrLimit(limit, field), n, int64(math.MaxInt64))
}
