package layout

// Attribute, index and key names of the single table. The infrastructure module imports them, so
// the template always agrees with the code.
const (
	IndexGSI1 = "GSI1" // parent -> children, projects ALL
	IndexGSI2 = "GSI2" // resource -> buckets and usage, KEYS_ONLY by default (D11)
	IndexGSI3 = "GSI3" // entity -> buckets, resource -> entity configs, KEYS_ONLY
	IndexGSI4 = "GSI4" // namespace -> every item, KEYS_ONLY
)

// Sort keys and sort key prefixes that stream filters match on.
const (
	SKBucketState = "#STATE"
	SKAuditPrefix = "#AUDIT#"
	SKUsagePrefix = "#USAGE#"
)

// SystemPKSuffix ends the partition key of a namespace's own records: its system configuration, and
// under [TableNamespace] the registry of namespaces and the version record. Policies refer to keys
// by it.
const SystemPKSuffix = "/SYSTEM#"

// The parts that follow the namespace id and a slash in the partition keys of buckets, of entities
// with their limits and usage, and of resources with their limits. Policies refer to keys by them.
const (
	BucketPKPart   = "BUCKET#"
	EntityPKPart   = "ENTITY#"
	ResourcePKPart = "RESOURCE#"
	AuditPKPart    = "AUDIT#"

	EntityConfigPart = "ENTITY_CONFIG#" // in the index of limits by resource
)

// Subjects of audit events that are not entities.
const (
	AuditSystem         = "$SYSTEM"
	AuditResourcePrefix = "$RESOURCE:"
)
