package config

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const attrResources = "resources"

// AddResource notes that a resource has default limits. Doing it again changes
// nothing.
func AddResource(ns, resource string) item.Update {
	return inRegistry(ns, item.Update{Key: layout.ResourcesKey(ns),
		Add: []item.Attr{{Name: attrResources, Value: item.SS(resource)}}})
}

// RemoveResource takes a resource out of the registry again.
func RemoveResource(ns, resource string) item.Update {
	return inRegistry(ns, item.Update{Key: layout.ResourcesKey(ns),
		Del: []item.Attr{{Name: attrResources, Value: item.SS(resource)}}})
}

// CountEntityConfigs adds n, which may be negative, to the number of entities
// with limits of their own for a resource. The attribute is the resource's
// name; ok is false for the few names that are key attributes, which no client
// can count.
func CountEntityConfigs(ns, resource string, n int64) (u item.Update, ok bool) {
	u = inRegistry(ns, item.Update{Key: layout.EntityConfigsKey(ns), Add: []item.Attr{{Name: resource,
		Value: item.N(n)}}})
	return u, !item.IsKeyAttr(resource)
}

// ForgetEntityConfigs takes a resource out of the counts when its count is zero,
// or below it.
func ForgetEntityConfigs(ns, resource string) item.Update {
	return item.Update{
		Key: layout.EntityConfigsKey(ns), Remove: []string{resource}, If: item.Compare(resource, item.Le, item.N(0)),
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
	k := layout.ResourcesKey(s.Namespace)
	it := layout.NewItem(k)
	if len(s.Names) > 0 {
		it[attrResources] = item.SS(s.Names...)
	}
	return layout.WithGSI4(item.Item(it), s.Namespace, k.PK)
}

// DecodeResources reads the registry of resources.
func DecodeResources(it item.Item) (Resources, error) {
	r := item.Reader{It: it}
	var s Resources
	s.Namespace, _ = layout.Under(&r, "SYSTEM#")
	r.SK(layout.SKResources)
	s.Names = slices.Sorted(slices.Values(r.Texts(attrResources)))
	if err := r.Named("registry"); err != nil {
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
	k := layout.EntityConfigsKey(c.Namespace)
	it := layout.NewItem(k)
	for resource, n := range c.Counts {
		if !item.IsKeyAttr(resource) {
			it[resource] = item.N(n)
		}
	}
	return layout.WithGSI4(item.Item(it), c.Namespace, k.PK)
}

// DecodeEntityConfigs reads the counts. Every number is one, also zero.
func DecodeEntityConfigs(it item.Item) (EntityConfigs, error) {
	r := item.Reader{It: it}
	var c EntityConfigs
	c.Namespace, _ = layout.Under(&r, "SYSTEM#")
	r.SK(layout.SKEntityConfigs)
	for attr, v := range it {
		if _, ok := v.(*types.AttributeValueMemberN); !ok || item.IsKeyAttr(attr) {
			continue
		}
		if c.Counts == nil {
			c.Counts = make(map[string]int64)
		}
		c.Counts[attr] = r.Int(attr)
	}
	if err := r.Named("registry"); err != nil {
		return EntityConfigs{}, err
	}
	return c, nil
}
