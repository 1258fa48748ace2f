package admin

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// readAtOnce is how many configurations of entities a listing reads together.
const readAtOnce = 100

// Configs lists the configurations stored for an entity, for an entity on a resource, for a
// resource, or at all scopes. For a resource the resource's own comes first, then the ones for
// single entities on it. For all scopes it lists the system's, then the resources', then the
// entities'. Resources named like a key of the table are left out if neither an entity nor the
// resource is named. Limits that cannot be read come with an ErrConfig and their scope, and the
// listing goes on.
func (n *Namespace) Configs(ctx context.Context, at Scope) iter.Seq2[Config, error] {
	return func(yield func(Config, error) bool) {
		err := at.validate()
		if err == nil && at.Entity != "" {
			n.configsOf(ctx, at, yield)
			return
		}
		var resources, withEntities []string
		scopes := []Scope{{Resource: at.Resource}}
		if at.Resource != "" {
			withEntities = []string{at.Resource}
		} else if err == nil {
			var counts map[string]int
			if resources, err = n.resourcesWithLimits(ctx); err == nil {
				counts, err = n.resourcesWithEntityLimits(ctx)
			}
			withEntities = slices.Sorted(maps.Keys(counts))
		}
		if err != nil {
			yield(Config{}, err)
			return
		}
		for _, r := range resources {
			scopes = append(scopes, Scope{Resource: r})
		}
		for _, r := range withEntities {
			for e, err := range n.entitiesWithLimits(ctx, r) {
				if err != nil {
					yield(Config{}, err)
					return
				}
				scopes = append(scopes, Scope{Entity: e, Resource: r})
				if len(scopes) >= readAtOnce {
					if !n.stored(ctx, scopes, yield) {
						return
					}
					scopes = nil
				}
			}
		}
		n.stored(ctx, scopes, yield)
	}
}

// stored yields the configurations stored at scopes, and reports whether to go on. Those that an
// index still lists and are gone are left out.
func (n *Namespace) stored(ctx context.Context, scopes []Scope, yield func(Config, error) bool) bool {
	keys := make([]item.Key, len(scopes))
	for i, s := range scopes {
		keys[i] = n.config(s).Key()
	}
	items, err := n.calls.found(ctx, keys...)
	if err != nil {
		yield(Config{}, fail(err, "list limits"))
		return false
	}
	for _, it := range items {
		if !yield(configIn(it, n.table.now())) {
			return false
		}
	}
	return true
}

// configsOf yields the configurations of an entity, on one resource if it is named.
func (n *Namespace) configsOf(ctx context.Context, at Scope, yield func(Config, error) bool) {
	if at.Resource != "" {
		n.stored(ctx, []Scope{at}, yield)
		return
	}
	for it, err := range n.calls.query(ctx, config.ConfigsOfEntity(n.id, at.Entity)) {
		if err != nil {
			yield(Config{}, fail(err, "list limits of %q", at.Entity))
			return
		}
		if !yield(configIn(it, n.table.now())) {
			return
		}
	}
}

// entitiesWithLimits lists the entities with limits of their own for a resource;
// for an empty resource those with limits for all other resources.
func (n *Namespace) entitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	resource = cmp.Or(resource, layout.DefaultResource)
	q := config.EntitiesWithConfig(n.id, resource)
	return decoded(n.calls.query(ctx, q), func(it item.Item) (string, bool, error) {
		entity, ok := config.EntityOfConfig(item.KeyOf(it))
		return entity, ok, nil
	}, "list entities with limits for %q", resource)
}

// resourcesWithLimits returns the resources with limits for all entities, sorted.
func (n *Namespace) resourcesWithLimits(ctx context.Context) ([]string, error) {
	items, err := n.calls.read(ctx, layout.ResourcesKey(n.id))
	if err != nil || items[0] == nil {
		return nil, fail(err, "list resources with limits")
	}
	names, err := config.DecodeResources(items[0])
	return names, fail(err, "list resources with limits")
}

// resourcesWithEntityLimits returns how many entities have limits of their own, by
// resource; under the empty name those with limits for all other resources.
// Resources named like a key of the table are not counted.
func (n *Namespace) resourcesWithEntityLimits(ctx context.Context) (map[string]int, error) {
	items, err := n.calls.read(ctx, layout.EntityConfigsKey(n.id))
	if err != nil || items[0] == nil {
		return nil, fail(err, "count entities with limits")
	}
	counts, err := config.DecodeEntityConfigs(items[0])
	if err != nil {
		return nil, fail(err, "count entities with limits")
	}
	out := map[string]int{}
	for resource, count := range counts {
		if resource == layout.DefaultResource {
			resource = ""
		}
		if count > 0 {
			out[resource] = int(count)
		}
	}
	return out, nil
}
