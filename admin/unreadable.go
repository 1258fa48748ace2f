package admin

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// removeBucket removes all shards of a bucket, whatever is stored there, and records it
// as "bucket_reset", in one transaction unless there are very many. If somebody makes, splits
// or merges one meanwhile it starts anew; what can be read by then is filled.
func (n *Namespace) removeBucket(ctx context.Context, entity, resource string) error {
	return untilHeld(func() error {
		shards, readable, err := n.anyShards(ctx, entity, resource)
		if err == nil && readable {
			_, err = n.fill(ctx, entity, resource, nil)
		}
		if err != nil || readable {
			return err
		}
		together := min(len(shards), item.MaxTransactItems-2) // with the event, and the check of the namespace
		var keys []item.Key
		for _, it := range slices.Backward(shards[together:]) { // the highest first, shard 0 last
			keys = append(keys, item.KeyOf(it))
		}
		if _, err := n.calls.remove(ctx, keys...); err != nil {
			return err
		}
		var writes []item.Write
		for _, it := range shards[:together] {
			writes = append(writes, table.Discard(it))
		}
		return n.transactRecorded(ctx, n.bucketLevels(Scope{entity, resource}, ledger.ActionBucketReset, nil), writes...)
	})
}

// anyShards returns the stored shards of a bucket. It looks for them, because the number that they
// store may be unreadable. It reports whether all can be read.
func (n *Namespace) anyShards(ctx context.Context, entity, resource string) ([]item.Item, bool, error) {
	var found []item.Item
	readable := true
	for from, to := 0, bucket.DefaultMaxShards; from < bucket.MaxShards; from, to = to, 2*to {
		items, err := n.shardItems(ctx, entity, resource, from, to)
		if err != nil {
			return nil, false, err
		}
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			_, err := table.DecodeShard(it)
			found, readable = append(found, it), readable && err == nil
		}
	}
	return found, readable, nil
}
