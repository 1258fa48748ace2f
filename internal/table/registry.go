package table

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// AddResource notes that a resource has default limits. Doing it again changes
// nothing.
func AddResource(ns, resource string) item.Update {
	return inRegistry(ns, item.Update{Key: ResourcesKey(ns),
		Add: []item.Attr{{Name: attrResources, Value: item.SS(resource)}}})
}

// RemoveResource takes a resource out of the registry again.
func RemoveResource(ns, resource string) item.Update {
	return inRegistry(ns, item.Update{Key: ResourcesKey(ns),
		Del: []item.Attr{{Name: attrResources, Value: item.SS(resource)}}})
}

// CountEntityConfigs adds n, which may be negative, to the number of entities
// with limits of their own for a resource. The attribute is the resource's
// name; ok is false for the few names that are key attributes, which no client
// can count.
func CountEntityConfigs(ns, resource string, n int64) (u item.Update, ok bool) {
	u = inRegistry(ns, item.Update{Key: EntityConfigsKey(ns), Add: []item.Attr{{Name: resource, Value: item.N(n)}}})
	return u, !item.IsKeyAttr(resource)
}

// ForgetEntityConfigs takes a resource out of the counts when its count is zero,
// or below it.
func ForgetEntityConfigs(ns, resource string) item.Update {
	return item.Update{
		Key: EntityConfigsKey(ns), Remove: []string{resource}, If: item.Compare(resource, item.Le, item.N(0)),
	}
}

// inRegistry makes an update leave the item where a namespace's items are found.
func inRegistry(ns string, u item.Update) item.Update {
	u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: item.AttrGSI4PK, Value: item.S(ns)},
		item.Attr{Name: item.AttrGSI4SK, Value: item.S(u.Key.PK)})
	return u
}

// Resources is the registry of resources with default limits, sorted.
type Resources struct {
	Namespace string
	Names     []string
}

// Item returns the registry as it is stored.
func (s Resources) Item() item.Item {
	k := ResourcesKey(s.Namespace)
	it := newItem(k)
	if len(s.Names) > 0 {
		it[attrResources] = item.SS(s.Names...)
	}
	return gsi4(item.Item(it), s.Namespace, k.PK)
}

// DecodeResources reads the registry of resources.
func DecodeResources(it item.Item) (Resources, error) {
	r := reader{it: it}
	var s Resources
	s.Namespace, _ = r.under("SYSTEM#")
	r.sk(skResources)
	s.Names = slices.Sorted(slices.Values(r.texts(attrResources)))
	if err := r.named("registry"); err != nil {
		return Resources{}, err
	}
	return s, nil
}

// EntityConfigs is how many entities have limits of their own, by resource.
type EntityConfigs struct {
	Namespace string
	Counts    map[string]int64 // nil: none
}

// Item returns the counts as they are stored.
func (c EntityConfigs) Item() item.Item {
	k := EntityConfigsKey(c.Namespace)
	it := newItem(k)
	for resource, n := range c.Counts {
		if !item.IsKeyAttr(resource) {
			it[resource] = item.N(n)
		}
	}
	return gsi4(item.Item(it), c.Namespace, k.PK)
}

// DecodeEntityConfigs reads the counts. Every number is one, also zero.
func DecodeEntityConfigs(it item.Item) (EntityConfigs, error) {
	r := reader{it: it}
	var c EntityConfigs
	c.Namespace, _ = r.under("SYSTEM#")
	r.sk(skEntityConfigs)
	for attr, v := range it {
		if _, ok := v.(*types.AttributeValueMemberN); !ok || item.IsKeyAttr(attr) {
			continue
		}
		if c.Counts == nil {
			c.Counts = make(map[string]int64)
		}
		c.Counts[attr] = r.int(attr)
	}
	if err := r.named("registry"); err != nil {
		return EntityConfigs{}, err
	}
	return c, nil
}

// Provisioner is what the declarative provisioner manages in a namespace.
type Provisioner struct {
	Namespace   string
	System      bool
	Resources   []string
	Entities    map[string][]string // resources by entity
	LastApplied string              // see [Timestamp]
	Hash        string              // of the manifest applied last
}

// Item returns the state as it is stored. Unlike other clients' it can be found
// by namespace, so that purging a namespace removes it.
func (p Provisioner) Item() item.Item {
	k := ProvisionerKey(p.Namespace)
	it := newItem(k)
	it[attrManagedSystem] = item.Bool(p.System)
	it[attrManagedRes] = list(p.Resources)
	entities := make(item.Item, len(p.Entities))
	for entity, resources := range p.Entities {
		entities[entity] = list(resources)
	}
	it[attrManagedEntities] = item.Map(entities)
	it[attrLastApplied], it[attrAppliedHash] = item.S(p.LastApplied), item.S(p.Hash)
	return gsi4(item.Item(it), p.Namespace, k.PK)
}

// DecodeProvisioner reads the provisioner's state.
func DecodeProvisioner(it item.Item) (Provisioner, error) {
	r := reader{it: it}
	var p Provisioner
	p.Namespace, _ = r.under("SYSTEM#")
	r.sk(skProvisioner)
	p.System, p.Resources = r.flag(attrManagedSystem), r.texts(attrManagedRes)
	entities := r.entries(attrManagedEntities)
	for _, entity := range slices.Sorted(maps.Keys(entities)) {
		if p.Entities == nil {
			p.Entities = make(map[string][]string, len(entities))
		}
		list, err := texts(entities[entity])
		if err != nil {
			r.fail("attribute %q, entity %q: %w", attrManagedEntities, entity, err)
		}
		p.Entities[entity] = list
	}
	p.LastApplied, p.Hash = r.str(attrLastApplied), r.str(attrAppliedHash)
	if err := r.named("provisioner"); err != nil {
		return Provisioner{}, err
	}
	return p, nil
}
