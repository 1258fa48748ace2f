package desk

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A bucket whose shard 0 is not there is new, has expired or was deleted. Or shard 0 alone was
// deleted, by hand or by another client, and the other shards live on. Created full, shard 0 would
// grant again what they hold. So a process that is about to create a bucket reads its shard 1
// first. Shard 0 splits that off first and merges it last, so every bucket of several shards has
// it.

// creation is a bucket that is about to be created. What it is known by is held from the
// read to the write: meanwhile it may be evicted from what the Limiter remembers.
type creation struct {
	want decide.Want
	desk *Desk
}

// siblings looks for living shards of buckets whose shard 0 is missing, before they are created. It
// remembers them with the count that shard 0 had. It costs a consistent read unit for each bucket,
// in one call. Where shard 1 is found, others are looked for that shard 0 may have split off while
// shard 1 was not split yet.
//
// Nobody can create shard 0 unnoticed after the read: the write that creates it has the
// condition that it is missing.
func (d *Desks) siblings(ctx context.Context, all ...creation) error {
	shards := make([]int, len(all)) // to be read next
	for i := range shards {
		shards[i] = 1
	}
	for len(all) > 0 {
		keys := make([]item.Key, len(all))
		for i, c := range all {
			keys[i] = d.Key(c.want.Name, shards[i])
		}
		items, err := d.Store.Read(ctx, true, keys...)
		if err != nil {
			return err
		}
		var more []creation
		var next []int
		for i, c := range all {
			count, err := c.desk.Survives(shards[i], items[i], d.clock())
			if err != nil {
				return err
			}
			if count > shards[i] && count < bucket.MaxShards {
				more, next = append(more, c), append(next, count)
			}
		}
		all, shards = more, next
	}
	return nil
}
