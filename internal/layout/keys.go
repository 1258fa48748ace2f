package layout

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// TableNamespace is the reserved namespace id of records that belong to the
// whole table: the namespace registry and the version record.
const TableNamespace = "_"

// DefaultResource is the pseudo-resource under which an entity's defaults for
// all resources are stored. It is not a valid resource name.
const DefaultResource = "_default_"

// Sort keys of records that exist once per partition key.
const (
	SKMeta          = "#META"
	SKConfig        = "#CONFIG"
	SKResources     = "#RESOURCES"
	SKEntityConfigs = "#ENTITY_CONFIG_RESOURCES"
	SKProvisioner   = "#PROVISIONER"
	SKVersion       = "#VERSION"
	SKNamespace     = "#NAMESPACE#"
	SKNamespaceID   = "#NSID#"
)

// EntityPK is the partition key of an entity's items.
func EntityPK(ns, entity string) string { return ns + "/" + EntityPKPart + entity }

// ResourcePK is the partition key of a resource's items.
func ResourcePK(ns, resource string) string { return ns + "/" + ResourcePKPart + resource }

// SystemPK is the partition key of a namespace's items.
func SystemPK(ns string) string { return ns + SystemPKSuffix }

// BucketKey is the key of one shard of a bucket.
func BucketKey(ns, entity, resource string, shard int) item.Key {
	pk := ns + "/" + BucketPKPart + escaped(entity) + "#" + resource + "#" + strconv.Itoa(shard)
	return item.Key{PK: pk, SK: SKBucketState}
}

// EntityKey is the key of an entity's metadata.
func EntityKey(ns, entity string) item.Key { return item.Key{PK: EntityPK(ns, entity), SK: SKMeta} }

// EntityConfigKey is the key of an entity's limits for one resource, or with
// [DefaultResource] for all resources without limits of their own.
func EntityConfigKey(ns, entity, resource string) item.Key {
	return item.Key{PK: EntityPK(ns, entity), SK: SKConfig + "#" + resource}
}

// ResourceConfigKey is the key of a resource's default limits.
func ResourceConfigKey(ns, resource string) item.Key {
	return item.Key{PK: ResourcePK(ns, resource), SK: SKConfig}
}

// SystemConfigKey is the key of a namespace's default limits.
func SystemConfigKey(ns string) item.Key { return item.Key{PK: SystemPK(ns), SK: SKConfig} }

// UsageKey is the key of a usage snapshot; start is the window's start in the
// form that is unique to the kind of window (design D10).
func UsageKey(ns, entity, resource, start string) item.Key {
	return item.Key{PK: EntityPK(ns, entity), SK: SKUsagePrefix + resource + "#" + start}
}

// AuditKey is the key of an audit event about subject.
func AuditKey(ns, subject, eventID string) item.Key {
	return item.Key{PK: ns + "/" + AuditPKPart + subject, SK: SKAuditPrefix + eventID}
}

// VersionKey is the key of the table's version record.
func VersionKey() item.Key { return item.Key{PK: SystemPK(TableNamespace), SK: SKVersion} }

// NamespaceKey is the key of the record that maps a namespace name to its id.
func NamespaceKey(name string) item.Key {
	return item.Key{PK: SystemPK(TableNamespace), SK: SKNamespace + name}
}

// NamespaceIDKey is the key of the record that maps a namespace id to its name.
func NamespaceIDKey(id string) item.Key {
	return item.Key{PK: SystemPK(TableNamespace), SK: SKNamespaceID + id}
}

// ResourcesKey is the key of the registry of resources with default limits.
func ResourcesKey(ns string) item.Key { return item.Key{PK: SystemPK(ns), SK: SKResources} }

// EntityConfigsKey is the key of the counts of entity configurations by resource.
func EntityConfigsKey(ns string) item.Key { return item.Key{PK: SystemPK(ns), SK: SKEntityConfigs} }

// ProvisionerKey is the key of the declarative provisioner's state.
func ProvisionerKey(ns string) item.Key { return item.Key{PK: SystemPK(ns), SK: SKProvisioner} }

// ProvisionerPages is the number of items over which a paged state is spread. The name of an entity
// determines its page, so each page can be replaced alone.
const ProvisionerPages = 256

// ProvisionerPageKeys are the keys of the pages of a state that does not fit into one item.
func ProvisionerPageKeys(ns string) []item.Key {
	keys := make([]item.Key, ProvisionerPages)
	for i := range keys {
		keys[i] = item.Key{PK: SystemPK(ns), SK: fmt.Sprintf("%s#%02x", SKProvisioner, i)}
	}
	return keys
}

// CutNamespace splits a partition key at the first slash into the namespace id and the rest.
func CutNamespace(pk string) (ns, rest string, ok bool) { return strings.Cut(pk, "/") }

// ParseBucketPK splits the partition key of a bucket into its parts: the last '#' precedes the
// shard, and the first one after BUCKET# separates entity and resource. The entity is returned
// without escapes.
func ParseBucketPK(pk string) (ns, entity, resource string, shard int, ok bool) {
	ns, rest, ok := CutNamespace(pk)
	if !ok || ns == "" {
		return "", "", "", 0, false
	}
	rest, ok = strings.CutPrefix(rest, BucketPKPart)
	if !ok {
		return "", "", "", 0, false
	}
	last := strings.LastIndexByte(rest, '#')
	if last < 0 {
		return "", "", "", 0, false
	}
	shard, err := strconv.Atoi(rest[last+1:])
	if err != nil || shard < 0 || strconv.Itoa(shard) != rest[last+1:] {
		return "", "", "", 0, false
	}
	entity, resource, ok = strings.Cut(rest[:last], "#")
	if !ok || entity == "" || resource == "" {
		return "", "", "", 0, false
	}
	return ns, unescaped(entity), resource, shard, true
}

// WithGSI4 adds the keys under which every item of a namespace can be found.
func WithGSI4(it item.Item, ns, sk string) item.Item {
	it[item.AttrGSI4PK], it[item.AttrGSI4SK] = item.S(ns), item.S(Cut(sk))
	return it
}
