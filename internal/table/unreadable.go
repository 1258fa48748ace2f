package table

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// ErrUnreadable means that an item with the key of a bucket holds data that this module cannot read.
var ErrUnreadable = errors.New("limiter: unreadable bucket")

// Discard removes a shard of a bucket, whether it can be read or not, while it is of the life and of
// the number of shards that it was read in. Other changes do not matter: it is to go.
func Discard(stored item.Item) item.Delete {
	return item.Delete{Key: item.KeyOf(stored),
		If: item.All(item.Exists(item.AttrPK), item.AsIn(stored, AttrGeneration), item.AsIn(stored, AttrShardCount))}
}

// Unschedule takes the schedules of Python clients off a shard, because the limits in force have none;
// false: it has none. Its level is one of the scheduled capacity, which only the schedule knows: it is kept
// as a level of the limit in force, up to its share of the capacity. vu makes all clients look anew.
func Unschedule(stored item.Item, inForce []bucket.Limit) (item.Update, bool) {
	u := item.Update{Key: item.KeyOf(stored), Set: []item.Attr{{Name: attrValidUntil, Value: item.N(0)}}}
	cond := []item.Cond{item.Exists(item.AttrPK), item.AsIn(stored, AttrShardCount)}
	for _, attr := range slices.Sorted(maps.Keys(stored)) {
		own := strings.HasPrefix(attr, "b_") && strings.HasSuffix(attr, "_"+layout.FieldSchedule)
		if attr == layout.FieldSchedule || own {
			u.Remove = append(u.Remove, attr)
			cond = append(cond, item.Compare(attr, item.Eq, stored[attr]))
		}
	}
	_, _, _, shard, _ := layout.ParseBucketPK(u.Key.PK)
	count, _, _ := item.Int(stored, AttrShardCount)
	for _, l := range inForce {
		n, most := namesOf(l.Name), bucket.Share(l.Capacity, shard, int(min(count, mostShards)))
		level, ok, err := item.Int(stored, n.tokens)
		if !ok || err != nil || !hasLevel(l) || calendarOf(stored, n.schedule, layout.FieldSchedule) == "" {
			continue
		}
		u.Set = append(u.Set, item.Attr{Name: n.capacity, Value: item.N(l.Capacity)})
		if level > most {
			u.Set = append(u.Set, item.Attr{Name: n.tokens, Value: item.N(most)})
			cond = append(cond, item.Compare(n.tokens, item.Eq, item.N(level)))
		}
	}
	u.If = item.All(cond...)
	return u, len(u.Remove) > 0
}

// notPositive is the error about a number of a limit that is 0 or less.
func notPositive(limit, field string, n int64) error {
	return fmt.Errorf("attribute %q is %d, want 1 to %d", attrLimit(limit, field), n, int64(math.MaxInt64))
}
