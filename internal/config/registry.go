package config

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const attrResources = "resources"

// Listing is a level of the configuration, except the system's, and whether it was and is stored.
type Listing struct {
	Entity, Resource string
	Was, Is          bool
}

// List returns the changes of the registries for several different levels. The registry of
// resources with defaults can be changed repeatedly without harm. The other one counts the entities
// with limits of their own, by resource. The resource's name is an attribute there, so no client
// can count a resource whose name equals a key attribute.
func List(ns string, all ...Listing) (out []item.Write) {
	counts := map[string]int64{}
	var add, remove []string
	for _, l := range all {
		switch {
		case l.Entity != "" && l.Is != l.Was && !item.IsKeyAttr(l.Resource):
			counts[l.Resource] += map[bool]int64{true: 1, false: -1}[l.Is]
		case l.Entity != "" || l.Resource == "":
		case l.Is:
			add = append(add, l.Resource)
		default:
			remove = append(remove, l.Resource)
		}
	}
	resources, counted := item.Update{Key: layout.ResourcesKey(ns)}, item.Update{Key: layout.EntityConfigsKey(ns)}
	if add != nil {
		resources.Add = []item.Attr{{Name: attrResources, Value: item.SS(add...)}}
	}
	if remove != nil {
		resources.Del = []item.Attr{{Name: attrResources, Value: item.SS(remove...)}}
	}
	for _, resource := range slices.Sorted(maps.Keys(counts)) {
		counted.Add = append(counted.Add, item.Attr{Name: resource, Value: item.N(counts[resource])})
	}
	for _, u := range []item.Update{resources, counted} {
		if len(u.Add)+len(u.Del) > 0 {
			out = append(out, inRegistry(ns, u))
		}
	}
	return out
}

// ForgetEntityConfigs removes a resource from the counts if its count is zero or less.
func ForgetEntityConfigs(ns, resource string) item.Update {
	return item.Update{
		Key: layout.EntityConfigsKey(ns), Remove: []string{resource}, If: item.Compare(resource, item.Le, item.N(0)),
	}
}

// inRegistry makes an update put the item into the index of its namespace.
func inRegistry(ns string, u item.Update) item.Update {
	u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: item.AttrGSI4PK, Value: item.S(ns)},
		item.Attr{Name: item.AttrGSI4SK, Value: item.S(u.Key.PK)})
	return u
}

// DecodeResources decodes the registry of resources with default limits. They are sorted.
func DecodeResources(it item.Item) ([]string, error) {
	r := item.Reader{It: it}
	layout.Under(&r, "SYSTEM#")
	r.SK(layout.SKResources)
	return item.Decoded(&r, "registry", slices.Sorted(slices.Values(r.Texts(attrResources))))
}

// DecodeEntityConfigs decodes how many entities have limits of their own, by resource; nil: none.
// Every number is a count, even zero.
func DecodeEntityConfigs(it item.Item) (map[string]int64, error) {
	r := item.Reader{It: it}
	layout.Under(&r, "SYSTEM#")
	r.SK(layout.SKEntityConfigs)
	var counts map[string]int64
	for attr, v := range it {
		if _, ok := v.(*types.AttributeValueMemberN); !ok || item.IsKeyAttr(attr) {
			continue
		}
		if counts == nil {
			counts = make(map[string]int64)
		}
		counts[attr] = r.Int(attr)
	}
	return item.Decoded(&r, "registry", counts)
}
