package config

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Namespaces queries the records that map names to ids: the active namespaces.
func Namespaces() item.Query {
	return item.Query{PK: layout.SystemPK(layout.TableNamespace), Prefix: layout.SKNamespace, Consistent: true}
}

// NamespaceIDs queries the records that map ids to names, of any status.
func NamespaceIDs() item.Query {
	return item.Query{PK: layout.SystemPK(layout.TableNamespace), Prefix: layout.SKNamespaceID, Consistent: true}
}

// OfNamespace queries the keys of all items of a namespace that are in its index.
func OfNamespace(ns string) item.Query { return item.Query{Index: layout.IndexGSI4, PK: ns} }

// OfSystem queries the records of a namespace itself: configuration, registries.
func OfSystem(ns string) item.Query { return item.Query{PK: layout.SystemPK(ns), Consistent: true} }

// OfEntity queries everything stored with an entity except its buckets: metadata, configuration,
// usage.
func OfEntity(ns, entity string) item.Query {
	return item.Query{PK: layout.EntityPK(ns, entity), Consistent: true}
}

// ConfigsOfEntity queries the limits of an entity for all resources.
func ConfigsOfEntity(ns, entity string) item.Query {
	return item.Query{PK: layout.EntityPK(ns, entity), Prefix: layout.SKConfig + "#", Consistent: true}
}

// Children queries the metadata of the entities with a parent.
func Children(ns, parent string) item.Query {
	return item.Query{Index: layout.IndexGSI1, PK: ns + "/PARENT#" + parent}
}

// Entities queries the keys of the items of a namespace's entities; [EntityOf] selects their
// metadata.
func Entities(ns string) item.Query {
	return item.Query{Index: layout.IndexGSI4, PK: ns, Prefix: layout.EntityPK(ns, "")}
}

// EntitiesWithConfig queries the keys of the entities' limits for a resource.
func EntitiesWithConfig(ns, resource string) item.Query {
	return item.Query{Index: layout.IndexGSI3, PK: ns + "/" + layout.EntityConfigPart + resource}
}

// EntityOfConfig returns the entity whose limits are at a key.
func EntityOfConfig(k item.Key) (entity string, ok bool) {
	_, rest, ok := layout.CutNamespace(k.PK)
	if !ok {
		return "", false
	}
	entity, ok = strings.CutPrefix(rest, "ENTITY#")
	return entity, ok && strings.HasPrefix(k.SK, layout.SKConfig+"#")
}
