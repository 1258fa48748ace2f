package admin

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Resolved is what is in force for an entity and resource, and where it comes
// from.
type Resolved struct {
	// From is what is stored at the scope that is in force, which has all of the limits. It
	// has none if no scope has any.
	From Config
	// Shadowed are the other scopes with limits, the most specific first.
	Shadowed []Config
	// OnUnavailable is what unavailable means, as stored for the namespace.
	OnUnavailable limiter.Policy
}

// Resolve returns the stored limits that are in force for an entity and resource,
// and the scope that gives them, as a limiter without cached configuration would
// find them.
func (n *Namespace) Resolve(ctx context.Context, entity, resource string) (Resolved, error) {
	if err := checkPair(entity, resource); err != nil {
		return Resolved{}, err
	}
	all, err := n.configs(ctx, entity, resource)
	var out Resolved
	for _, c := range all {
		if err == nil {
			err = c.err
		}
		stored := configOf(c.Config)
		if stored.OnUnavailable != limiter.PolicyDefault {
			out.OnUnavailable = stored.OnUnavailable
		}
		switch {
		case len(stored.Limits) == 0:
		case out.From.Limits == nil:
			out.From = stored
		default:
			out.Shadowed = append(out.Shadowed, stored)
		}
	}
	return out, fail(err, "resolve limits of %s", Scope{entity, resource})
}

func checkPair(entity, resource string) error {
	if err := argument.Entity("Entity", entity); err != nil {
		return err
	}
	return argument.Resource("Resource", resource)
}

// Configs lists what is stored for an entity: its limits for single resources, and
// those for all others.
func (n *Namespace) Configs(ctx context.Context, entity string) iter.Seq2[Config, error] {
	return func(yield func(Config, error) bool) {
		if err := argument.Entity("Entity", entity); err != nil {
			yield(Config{}, err)
			return
		}
		for it, err := range n.calls.query(ctx, table.ConfigsOfEntity(n.id, entity)) {
			var c table.Config
			if err == nil {
				c, err = table.DecodeConfig(it)
			}
			if !yield(configOf(c), fail(err, "list limits of %q", entity)) || err != nil {
				return
			}
		}
	}
}

// EntitiesWithLimits lists the entities with limits of their own for a resource;
// for an empty resource those with limits for all other resources.
func (n *Namespace) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if resource != "" {
			if err := argument.Resource("Resource", resource); err != nil {
				yield("", err)
				return
			}
		} else {
			resource = table.DefaultResource
		}
		for it, err := range n.calls.query(ctx, table.EntitiesWithConfig(n.id, resource)) {
			if err != nil {
				yield("", fail(err, "list entities with limits for %q", resource))
				return
			}
			entity, ok := table.EntityOfConfig(item.KeyOf(it))
			if ok && !yield(entity, nil) {
				return
			}
		}
	}
}

// ResourcesWithLimits returns the resources with limits for all entities, sorted.
func (n *Namespace) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	items, err := n.calls.read(ctx, table.ResourcesKey(n.id))
	if err != nil || items[0] == nil {
		return nil, fail(err, "list resources with limits")
	}
	r, err := table.DecodeResources(items[0])
	return r.Names, fail(err, "list resources with limits")
}

// ResourcesWithEntityLimits returns how many entities have limits of their own, by
// resource; under the empty name those with limits for all other resources.
// Resources named like a key of the table are not counted.
func (n *Namespace) ResourcesWithEntityLimits(ctx context.Context) (map[string]int, error) {
	items, err := n.calls.read(ctx, table.EntityConfigsKey(n.id))
	if err != nil || items[0] == nil {
		return nil, fail(err, "count entities with limits")
	}
	c, err := table.DecodeEntityConfigs(items[0])
	if err != nil {
		return nil, fail(err, "count entities with limits")
	}
	out := map[string]int{}
	for _, resource := range slices.Sorted(maps.Keys(c.Counts)) {
		if count := c.Counts[resource]; count > 0 {
			if resource == table.DefaultResource {
				resource = ""
			}
			out[resource] = int(count)
		}
	}
	return out, nil
}
