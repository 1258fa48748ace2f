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

// told is what they are told of an entity and resource.
type told struct {
	access  config.Switch
	parent  string
	cascade bool
}

// tellAccess stamps the shards of a bucket with whether requests are served.
func (n *Namespace) tellAccess(ctx context.Context, of Scope) (bool, error) {
	return n.tell(ctx, of.Entity, n.shardsOf(ctx, of), true, func(k item.Key, t told, read int64) item.Update {
		return config.Stamp(k, t.access, read+config.MaxBypass)
	})
}

// tellParent stamps the shards of a bucket with the parent of its entity and whether it pays.
func (n *Namespace) tellParent(ctx context.Context, of Scope) (bool, error) {
	return n.tell(ctx, of.Entity, n.shardsOf(ctx, of), true, stampParent)
}

// adopt tells the buckets of an entity who its parent is and whether it pays. It tells all of them,
// whatever the entity was before: an earlier call may have ended before it did.
func (n *Namespace) adopt(ctx context.Context, id string) error {
	_, err := n.tell(ctx, id, func() (keys []item.Key, err error) {
		for it, err := range n.calls.query(ctx, table.BucketsOfEntity(n.id, id)) {
			if err != nil {
				return nil, err
			}
			keys = append(keys, item.KeyOf(it))
		}
		return keys, nil
	}, false, stampParent)
	return err
}

func stampParent(k item.Key, t told, _ int64) item.Update {
	return config.Entity{Parent: t.parent, Cascade: t.cascade}.Adopt(k)
}

func (n *Namespace) shardsOf(ctx context.Context, of Scope) func() ([]item.Key, error) {
	return func() (keys []item.Key, err error) {
		shards, err := n.shards(ctx, of.Entity, of.Resource)
		for _, b := range shards {
			keys = append(keys, layout.BucketKey(n.id, of.Entity, of.Resource, b.State.Shard))
		}
		return keys, err
	}
}

// tell stamps the bucket shards of an entity that list returns. It ends when the configuration is
// what they were told, and each is there if list is consistent. So if two change it at once, the last
// stamp is what is stored.
func (n *Namespace) tell(ctx context.Context, id string, list func() ([]item.Key, error), consistent bool,
	stamp func(k item.Key, t told, read int64) item.Update,
) (any bool, err error) {
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
		was, err := n.toldOf(ctx, id, resources)
		if err != nil {
			return any, err
		}
		done := true
		for _, k := range keys {
			_, _, resource, _, _ := layout.ParseBucketPK(k.PK)
			_, err := n.calls.write(ctx, stamp(k, was[resource], read))
			if err != nil && !isRefused(err) { // refused: the shard is gone
				return any, err
			}
			done, any = done && (err == nil || !consistent), true
		}
		if now, err := n.toldOf(ctx, id, resources); err != nil || done && maps.Equal(now, was) {
			return any, err
		}
		pause(ctx, try)
	}
	return any, ErrBusy
}

// toldOf returns what is in force for an entity, by resource.
func (n *Namespace) toldOf(ctx context.Context, id string, resources map[string]bool) (map[string]told, error) {
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
	out := map[string]told{}
	for r := range resources {
		says := config.Combined(level[Scope{id, r}], level[Scope{Entity: id}], level[Scope{Resource: r}],
			config.Access{Cascade: &e.Cascade})
		out[r] = told{says.Switch, e.Parent, *says.Cascade && e.Parent != ""}
	}
	return out, nil
}
