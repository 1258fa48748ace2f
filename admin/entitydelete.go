package admin

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// DeleteEntity removes an entity with everything that is stored with it: limits of its own, buckets
// and usage; the audit trail stays, and gets an event. For two weeks a note remains, so that usage
// that is not counted yet is not counted later; docs/usage.md names the exceptions. It returns how
// many items were removed; if nothing is stored, that is zero, and nothing is recorded. After an
// error, call it again to continue. Children stay. If they charge the entity, their requests are
// ErrInvalid from then on: move or delete them first. Clients that go on taking tokens create new
// buckets.
func (n *Namespace) DeleteEntity(ctx context.Context, id string) (removed int, err error) {
	if err := validate.Entity("ID", id); err != nil {
		return 0, err
	}
	seen := map[item.Key]bool{}
	for range deletePasses {
		before := len(seen)
		if err := n.sweepEntity(ctx, id, seen); err != nil {
			return len(seen), fail(err, "delete entity %q", id)
		}
		if len(seen) == before {
			break
		}
	}
	removed = len(seen)
	dropped, err := n.dropEntity(ctx, id, removed)
	return removed + dropped, fail(err, "delete entity %q", id)
}

// deletePasses is how often the entity's items are looked for: until nothing new is
// found, because indexes lag behind and clients may still be taking tokens, but not
// for ever.
const deletePasses = 5

// sweepEntity removes what can be found of an entity now, but its description, and
// adds the keys to seen. Limits go first, and leave the counts too.
func (n *Namespace) sweepEntity(ctx context.Context, id string, seen map[item.Key]bool) error {
	for _, q := range []item.Query{config.OfEntity(n.id, id), table.BucketsOfEntity(n.id, id)} {
		for items, err := range n.calls.pages(ctx, q) {
			if err != nil {
				return err
			}
			var keys []item.Key
			for _, it := range items {
				k := item.KeyOf(it)
				if k == layout.EntityKey(n.id, id) || k == config.DeletionKey(n.id, id) {
					continue
				}
				c, _ := config.DecodeConfig(it)
				if c.Entity == "" { // it is something else
					keys = append(keys, k)
					continue
				}
				dropped, err := n.dropConfig(ctx, c)
				if err != nil {
					return err
				}
				if dropped > 0 {
					seen[k] = true
				}
			}
			gone, err := n.table.removeCounted(ctx, n.id, id, keys)
			for _, k := range gone {
				seen[k] = true
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// dropConfig removes limits of an entity with their place in the counts. It returns how many
// items that were: none if somebody else was faster.
func (n *Namespace) dropConfig(ctx context.Context, c config.Config) (dropped int, err error) {
	gone := item.Delete{Key: c.Key(), If: item.Exists(item.AttrPK)}
	list := config.Listing{Entity: c.Entity, Resource: c.Resource, Was: true}
	err = n.transact(ctx, append(config.List(n.id, list), gone)...)
	if _, gone := refused(err); gone {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n.tidy(ctx, scopeOf(c), stored{item: c.Item()}, config.Config{Resource: c.Resource})
	return 1, nil
}

// dropEntity removes the description of an entity last, if there is one, and records the
// deletion in the same transaction. Where there was nothing, nothing is recorded.
func (n *Namespace) dropEntity(ctx context.Context, id string, removed int) (dropped int, err error) {
	described := item.Delete{Key: layout.EntityKey(n.id, id), If: item.Exists(item.AttrPK)}
	err = n.transactRecorded(ctx, entityDeleted(id, removed+1), described)
	if err == nil {
		return 1, nil
	}
	if _, missing := refused(err); !missing {
		return 0, err
	}
	if removed == 0 {
		return 0, nil
	}
	return 0, n.transactRecorded(ctx, entityDeleted(id, removed))
}
