package table

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

const (
	usagePart        = "USAGE#"
	entityConfigPart = "ENTITY_CONFIG#"
)

// Namespaces asks for the records that map names to ids: the active namespaces.
func Namespaces() item.Query {
	return item.Query{PK: pkSystem(TableNamespace), Prefix: skNamespace, Consistent: true}
}

// NamespaceIDs asks for the records that map ids to names, of whatever status.
func NamespaceIDs() item.Query {
	return item.Query{PK: pkSystem(TableNamespace), Prefix: skNamespaceID, Consistent: true}
}

// OfNamespace asks for the keys of every item of a namespace that can be found by
// it.
func OfNamespace(ns string) item.Query { return item.Query{Index: IndexGSI4, PK: ns} }

// OfSystem asks for the records of a namespace itself: configuration, registries.
func OfSystem(ns string) item.Query { return item.Query{PK: pkSystem(ns), Consistent: true} }

// OfEntity asks for everything stored with an entity but its buckets: metadata,
// configuration, usage.
func OfEntity(ns, entity string) item.Query {
	return item.Query{PK: pkEntity(ns, entity), Consistent: true}
}

// ConfigsOfEntity asks for the limits of an entity, for whatever resources.
func ConfigsOfEntity(ns, entity string) item.Query {
	return item.Query{PK: pkEntity(ns, entity), Prefix: skConfig + "#", Consistent: true}
}

// Children asks for the metadata of the entities with a parent.
func Children(ns, parent string) item.Query {
	return item.Query{Index: IndexGSI1, PK: ns + "/PARENT#" + parent}
}

// BucketsOfEntity asks for the keys of all bucket shards of an entity.
func BucketsOfEntity(ns, entity string) item.Query {
	return item.Query{Index: IndexGSI3, PK: pkEntity(ns, entity), Prefix: BucketPKPart}
}

// BucketsOfResource asks for the keys of all bucket shards of a resource.
func BucketsOfResource(ns, resource string) item.Query {
	return item.Query{Index: IndexGSI2, PK: pkResource(ns, resource), Prefix: BucketPKPart}
}

// BucketsOfNamespace asks for the keys of all bucket shards of a namespace.
func BucketsOfNamespace(ns string) item.Query {
	return item.Query{Index: IndexGSI4, PK: ns, Prefix: BucketPKPart}
}

// Entities asks for the keys of what is stored of the entities of a namespace; [EntityOf] picks
// their metadata.
func Entities(ns string) item.Query {
	return item.Query{Index: IndexGSI4, PK: ns, Prefix: pkEntity(ns, "")}
}

// EntitiesWithConfig asks for the keys of the entities' limits for a resource.
func EntitiesWithConfig(ns, resource string) item.Query {
	return item.Query{Index: IndexGSI3, PK: ns + "/" + entityConfigPart + resource}
}

// Audits asks for the events about a subject, the newest first; up to the event
// with the id last, included, unless that is empty.
func Audits(ns, subject, last string) item.Query {
	q := item.Query{PK: ns + "/" + AuditPKPart + subject, Prefix: SKAuditPrefix, Descending: true, Consistent: true}
	if last != "" {
		q.Prefix, q.From, q.To = "", SKAuditPrefix, SKAuditPrefix+last
	}
	return q
}

// AllAudits asks for the keys of the events about all subjects of a namespace.
func AllAudits(ns string) item.Query {
	return item.Query{Index: IndexGSI4, PK: ns, Prefix: ns + "/" + AuditPKPart}
}

// AuditID returns the ID of the event at a key.
func AuditID(k item.Key) string { return strings.TrimPrefix(k.SK, SKAuditPrefix) }

// UsageOfEntity asks for the snapshots of an entity on a resource, empty for all.
// With a resource, from and to bound the windows' starts, as prefixes of their
// RFC 3339 form; empty ones do not.
func UsageOfEntity(ns, entity, resource, from, to string) item.Query {
	q := item.Query{PK: pkEntity(ns, entity), Prefix: skUsagePrefix, Consistent: true}
	if resource != "" {
		return between(q, skUsagePrefix+resource+"#", from, to)
	}
	return q
}

// UsageOfResource asks for the keys of the snapshots of all entities on a
// resource, from and to as for [UsageOfEntity].
func UsageOfResource(ns, resource, from, to string) item.Query {
	return between(item.Query{Index: IndexGSI2, PK: pkResource(ns, resource)}, usagePart, from, to)
}

// UsageBefore asks for the snapshots of an entity on a resource before that at the
// key, of all kinds, the latest first.
func UsageBefore(k item.Key) item.Query {
	from := k.SK[:strings.LastIndexByte(k.SK, '#')+1]
	return item.Query{PK: k.PK, From: from, To: k.SK, Descending: true, Consistent: true}
}

// between bounds what follows prefix in a sort key. One that begins with to is
// still included.
func between(q item.Query, prefix, from, to string) item.Query {
	q.Prefix = prefix
	if from != "" || to != "" {
		q.Prefix, q.From, q.To = "", prefix+from, prefix+to+last
	}
	return q
}

// last sorts after everything that follows a prefix.
const last = "\U0010ffff"

// EntityOfConfig returns the entity whose limits are at a key.
func EntityOfConfig(k item.Key) (entity string, ok bool) {
	_, rest, ok := CutNamespace(k.PK)
	if !ok {
		return "", false
	}
	entity, ok = strings.CutPrefix(rest, "ENTITY#")
	return entity, ok && strings.HasPrefix(k.SK, skConfig+"#")
}

// IsWhole reports whether an item that an index brought is all of the item, or its
// keys alone.
func IsWhole(it item.Item) bool {
	_, bucket := it[attrRF].(*types.AttributeValueMemberN)
	_, usage := it[attrWindow].(*types.AttributeValueMemberS)
	return bucket || usage
}

// Belongs reports whether the item at a key is what a query asks for. Keys of an index are
// attributes: whoever may write an item of one namespace can give it those of another, and no
// policy sees that. So they only find an item, and its own key says what it is of.
func Belongs(q item.Query, k item.Key) bool {
	if q.Index == "" {
		return true
	}
	ns, rest, ok := CutNamespace(k.PK)
	of, asked, found := CutNamespace(q.PK)
	if !ok || ns != of || found == (q.Index == IndexGSI4) {
		return false
	}
	_, entity, resource, _, bucket := ParseBucketPK(k.PK)
	inEntity := strings.HasPrefix(rest, EntityPKPart)
	switch q.Index {
	case IndexGSI1:
		return inEntity && k.SK == skMeta
	case IndexGSI2:
		of := strings.TrimPrefix(asked, ResourcePKPart)
		if q.Prefix == BucketPKPart {
			return bucket && resource == of
		}
		return inEntity && strings.HasPrefix(k.SK, skUsagePrefix+of+"#")
	case IndexGSI3:
		if of, ok := strings.CutPrefix(asked, EntityPKPart); ok {
			return bucket && entity == of
		}
		return inEntity && k.SK == skConfig+"#"+strings.TrimPrefix(asked, entityConfigPart)
	}
	return strings.HasPrefix(k.PK, ns+"/"+strings.TrimPrefix(q.Prefix, ns+"/"))
}
