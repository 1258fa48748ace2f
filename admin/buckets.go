package admin

import (
	"context"
	"iter"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// bucketsAt yields entity and resource of every bucket in a scope, once each,
// whether it has been split or not.
func (n *Namespace) bucketsAt(ctx context.Context, at Scope) iter.Seq2[Scope, error] {
	return sequence(func(yield func(Scope) bool) error {
		var q item.Query
		switch {
		case at.Entity != "" && at.Resource != "":
			yield(at)
			return nil
		case at.Entity != "":
			q = table.BucketsOfEntity(n.id, at.Entity)
		case at.Resource != "":
			q = table.BucketsOfResource(n.id, at.Resource)
		default:
			q = table.BucketsOfNamespace(n.id)
		}
		for it, err := range n.calls.query(ctx, q) {
			if err != nil {
				return err
			}
			_, entity, resource, shard, ok := layout.ParseBucketPK(item.KeyOf(it).PK)
			if ok && shard == 0 && !yield(Scope{Entity: entity, Resource: resource}) {
				break
			}
		}
		return nil
	})
}
