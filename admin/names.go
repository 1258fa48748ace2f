package admin

import (
	"context"
	"iter"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Names yields the entities and resources of a scope for which something is stored: limits,
// buckets, and without a scope descriptions of entities. A name may come more than once, and in any
// order. It is for programs that offer names to choose from: a part that cannot be read ends with
// its error, and the listing goes on.
func (n *Namespace) Names(ctx context.Context, at Scope) iter.Seq2[Scope, error] {
	parts := []iter.Seq2[Scope, error]{n.bucketsAt(ctx, at)}
	if at == (Scope{}) {
		parts = append(parts, n.descriptions(ctx))
	}
	return func(yield func(Scope, error) bool) {
		for c, err := range n.Configs(ctx, at) {
			if !yield(c.Scope, fail(err, "list names of %s", at)) {
				return
			}
		}
		for _, part := range parts {
			for s, err := range part {
				if !yield(s, fail(err, "list names of %s", at)) {
					return
				}
			}
		}
	}
}

// descriptions yields the entities with names, metadata or parents.
func (n *Namespace) descriptions(ctx context.Context) iter.Seq2[Scope, error] {
	return decoded(n.calls.query(ctx, config.Entities(n.id)), func(it item.Item) (Scope, bool, error) {
		id, ok := config.EntityOf(it)
		return Scope{Entity: id}, ok, nil
	}, "list entities")
}
