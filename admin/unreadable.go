package admin

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A bucket that cannot be read is the trouble of that bucket alone. What is about many
// goes on with the others, and says in the end which could not be read.

// unreadables collects the errors of buckets that cannot be read.
type unreadables struct{ errs []error }

// skips reports whether an error is about one bucket that cannot be read, and notes it.
func (u *unreadables) skips(err error) bool {
	if !errors.Is(err, limiter.ErrUnreadable) {
		return false
	}
	u.errs = append(u.errs, err)
	return true
}

func (u *unreadables) err() error { return errors.Join(u.errs...) }

// removeBucket removes all shards of a bucket, whatever is stored there, and records it
// as "bucket_reset", in one transaction unless there are very many.
func (n *Namespace) removeBucket(ctx context.Context, entity, resource string) error {
	keys, err := n.shardKeys(ctx, entity, resource)
	if err != nil {
		return err
	}
	system, err := n.readScope(ctx, Scope{})
	if err != nil {
		return err
	}
	writes := []item.Write{n.record(ctx, system.system, event{
		subject: table.EntitySubject(entity), resource: resource, action: table.ActionBucketReset,
		details: table.BucketLevels(nil, n.once),
	})}
	for len(keys)+2 > item.MaxTransactItems { // with the event, and the check of the namespace
		some := keys[len(keys)-raiseAtOnce:]
		if err := n.calls.remove(ctx, some...); err != nil { // the highest first, shard 0 last
			return err
		}
		keys = keys[:len(keys)-len(some)]
	}
	for _, k := range keys {
		writes = append(writes, item.Delete{Key: k})
	}
	return n.transact(ctx, writes...)
}

// shardKeys returns the keys of the shards of a bucket that are there, by looking for
// them: what they say of their number may be what cannot be read.
func (n *Namespace) shardKeys(ctx context.Context, entity, resource string) (found []item.Key, err error) {
	for from, to := 0, bucket.DefaultMaxShards; from < bucket.MaxShards; from, to = to, 2*to {
		var keys []item.Key
		for k := from; k < to; k++ {
			keys = append(keys, table.BucketKey(n.id, entity, resource, k))
		}
		items, err := n.calls.read(ctx, keys...)
		if err != nil {
			return nil, err
		}
		more := false
		for i, it := range items {
			if it != nil {
				found, more = append(found, keys[i]), true
			}
		}
		if !more {
			break
		}
	}
	return found, nil
}
