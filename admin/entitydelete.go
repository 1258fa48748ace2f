package admin

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// DeleteEntity removes an entity with everything that is stored with it: limits of
// its own, buckets and usage; the audit trail stays, and gets an event. A note stays for two
// weeks, by which usage that is not counted yet is passed over; docs/usage.md says of which it
// is not. It returns how many items were removed; where nothing is stored that is none, and
// nothing is recorded. After an error, call it again and it goes on. Children stay, without
// their parent. Clients that go on taking tokens make new buckets.
func (n *Namespace) DeleteEntity(ctx context.Context, id string) (removed int, err error) {
	if err := argument.Entity("ID", id); err != nil {
		return 0, err
	}
	for it, err := range n.calls.query(ctx, table.ConfigsOfEntity(n.id, id)) {
		if err != nil {
			return removed, fail(err, "delete entity %q: its limits", id)
		}
		c, err := table.DecodeConfig(it)
		if err != nil {
			continue // nobody counts it; it goes with the rest
		}
		if err := n.dropConfig(ctx, c); err != nil {
			return removed, fail(err, "delete entity %q: its limits", id)
		}
		removed++
	}
	seen := map[item.Key]bool{}
	for range deletePasses {
		before := len(seen)
		if err := n.sweepEntity(ctx, id, seen); err != nil {
			return removed + len(seen), fail(err, "delete entity %q", id)
		}
		if len(seen) == before {
			break
		}
	}
	removed += len(seen)
	gone, err := n.dropEntity(ctx, id, removed)
	return removed + gone, fail(err, "delete entity %q", id)
}

// deletePasses is how often the entity's items are looked for: until nothing new is
// found, because indexes lag behind and clients may still be taking tokens, but not
// for ever.
const deletePasses = 5

// sweepEntity removes what can be found of an entity now, but its description, and
// adds the keys to seen. Limits that were set meanwhile leave the counts, too.
func (n *Namespace) sweepEntity(ctx context.Context, id string, seen map[item.Key]bool) error {
	for _, q := range []item.Query{table.BucketsOfEntity(n.id, id), table.OfEntity(n.id, id)} {
		for items, err := range n.calls.pages(ctx, q) {
			if err != nil {
				return err
			}
			var keys []item.Key
			for _, it := range items {
				k := item.KeyOf(it)
				if k == table.EntityKey(n.id, id) || k == table.DeletionKey(n.id, id) {
					continue
				}
				c, err := table.DecodeConfig(it)
				if err != nil {
					keys = append(keys, k)
					continue
				}
				if err := n.dropConfig(ctx, c); err != nil {
					return err
				}
				seen[k] = true
			}
			if err := n.table.removeCounted(ctx, n.id, id, keys); err != nil {
				return err
			}
			for _, k := range keys {
				seen[k] = true
			}
		}
	}
	return nil
}

// dropConfig removes limits of an entity with their place in the counts.
func (n *Namespace) dropConfig(ctx context.Context, c table.Config) error {
	gone := item.Delete{Key: c.Key(), If: item.Exists(item.AttrPK)}
	writes := append([]item.Write{gone}, n.registers(true, c, false)...)
	err := n.transact(ctx, writes...)
	if _, gone := refused(err); gone {
		return nil
	}
	if err != nil {
		return err
	}
	n.tidy(ctx, scopeOf(c), stored{item: c.Item()}, table.Config{Resource: c.Resource})
	return nil
}

// dropEntity removes the description of an entity last and records the deletion in
// the same transaction.
func (n *Namespace) dropEntity(ctx context.Context, id string, removed int) (gone int, err error) {
	s, err := n.readScope(ctx, Scope{})
	if err != nil {
		return 0, err
	}
	for _, described := range []bool{true, false} {
		if !described && removed == 0 {
			return 0, nil
		}
		var writes []item.Write
		if gone = 0; described {
			gone = 1
			writes = append(writes, item.Delete{Key: table.EntityKey(n.id, id), If: item.Exists(item.AttrPK)})
		}
		writes = append(writes, n.record(ctx, s.system, event{
			subject: table.EntitySubject(id), action: table.ActionEntityDeleted, details: table.EntityDeleted(removed + gone),
		}))
		err = n.transact(ctx, writes...)
		if _, missing := refused(err); !missing {
			return gone, err
		}
	}
	return 0, errors.New("bug: an audit event was refused")
}
