package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Python clients look at the bucket with each request, not at the configuration. This file stamps
// buckets for them.

// stamped is what a bucket says of its entity and resource.
type stamped struct {
	access  config.Switch
	parent  string
	cascade bool
}

// A part of a stamp is a write of it to a shard, by a configuration that was read at an instant. A
// change stamps its own part only: a process that ends before it looks again may leave an old stamp,
// which must not undo the change of another.
type part func(s stamped, shard item.Key, read int64) item.Update

// switched stamps whether requests are served.
func (s stamped) switched(shard item.Key, read int64) item.Update {
	return config.Stamp(shard, s.access, read+config.MaxBypass)
}

// adopted stamps the parent of the entity, and whether it pays.
func (s stamped) adopted(shard item.Key, _ int64) item.Update {
	return config.Entity{Parent: s.parent, Cascade: s.cascade}.Adopt(shard)
}

// whole stamps both.
func (s stamped) whole(shard item.Key, read int64) item.Update {
	u, parent := s.switched(shard, read), s.adopted(shard, read)
	u.Set, u.Remove = append(u.Set, parent.Set...), append(u.Remove, parent.Remove...)
	return u
}

// stampBuckets stamps a part of all buckets at a scope.
func (n *Namespace) stampBuckets(ctx context.Context, at Scope, p part) (Reached, error) {
	return n.eachBucket(ctx, at, "mark", func(ctx context.Context, of Scope) (bool, error) {
		return n.stamp(ctx, of.Entity, true, p, func() (keys []item.Key, err error) {
			shards, err := n.shards(ctx, of.Entity, of.Resource)
			for _, b := range shards {
				keys = append(keys, layout.BucketKey(n.id, of.Entity, of.Resource, b.State.Shard))
			}
			return keys, err
		})
	})
}

// adopt stamps the buckets of an entity, all of them, whatever the entity was before: an earlier call may have
// ended before it did.
func (n *Namespace) adopt(ctx context.Context, id string) error {
	_, err := n.stamp(ctx, id, false, stamped.adopted, func() (keys []item.Key, err error) {
		for it, err := range n.calls.query(ctx, table.BucketsOfEntity(n.id, id)) {
			if err != nil {
				return nil, err
			}
			keys = append(keys, item.KeyOf(it))
		}
		return keys, nil
	})
	return err
}

// stamp stamps a part of the bucket shards of an entity that list returns. It ends when the configuration is
// as they were stamped, and each is there if list is consistent. So if two change it at once, the last
// stamp equals the configuration.
func (n *Namespace) stamp(ctx context.Context, id string, consistent bool, p part, list func() ([]item.Key, error)) (
	any bool, err error) {
	for try := range reachAttempts {
		keys, err := list()
		if err != nil || len(keys) == 0 {
			return any, err
		}
		resources := map[string]bool{}
		for _, k := range keys {
			_, _, resource, _, _ := layout.ParseBucketPK(k.PK)
			resources[resource] = true
		}
		read := n.table.now()
		was, err := n.stamps(ctx, id, resources)
		if err != nil {
			return any, err
		}
		done := true
		for _, k := range keys {
			_, _, resource, _, _ := layout.ParseBucketPK(k.PK)
			_, err := n.calls.write(ctx, p(was[resource], k, read))
			if err != nil && !isRefused(err) { // refused: the shard is gone
				return any, err
			}
			done, any = done && (err == nil || !consistent), true
		}
		if now, err := n.stamps(ctx, id, resources); err != nil || done && maps.Equal(now, was) {
			return any, err
		}
		pause(ctx, try)
	}
	return any, ErrBusy
}

// stamps returns the stamps of an entity's buckets by the configuration, by resource.
func (n *Namespace) stamps(ctx context.Context, id string, resources map[string]bool) (map[string]stamped, error) {
	at := []Scope{{Entity: id}}
	for _, r := range slices.Sorted(maps.Keys(resources)) {
		at = append(at, Scope{id, r}, Scope{Resource: r})
	}
	keys := []item.Key{layout.EntityKey(n.id, id)}
	for _, s := range at {
		keys = append(keys, n.config(s).Key())
	}
	items, err := n.calls.read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var e config.Entity // also where it is not described
	if items[0] != nil {
		if e, err = config.DecodeEntity(items[0]); err != nil {
			return nil, err
		}
	}
	level := map[Scope]config.Access{}
	for i, s := range at {
		level[s] = config.AccessOf(items[i+1])
	}
	out := map[string]stamped{}
	for r := range resources {
		says := config.Combined(level[Scope{id, r}], level[Scope{Entity: id}], level[Scope{Resource: r}],
			config.Access{Cascade: &e.Cascade})
		out[r] = stamped{says.Switch, e.Parent, *says.Cascade && e.Parent != ""}
	}
	return out, nil
}
