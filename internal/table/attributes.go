package table

import (
	"sync"
	"sync/atomic"
)

// Attributes of bucket items, beside those of its limits.
const (
	attrEntityID   = "entity_id"
	attrResource   = "resource"
	attrRF         = "rf"
	attrCascade    = "cascade"
	attrParentID   = "parent_id"
	attrShardCount = "shard_count"
	// attrRemainders holds what the last refill could not credit in whole
	// millitokens: a map {rf: N, r: {limit: N}} that counts only while its rf
	// equals the item's. A map, because other clients take number attributes
	// with certain names for limits.
	attrRemainders = "rr"
	remaindersOf   = "r"
	// attrGeneration tells the lives of an item apart, and the rules within one
	// (see Charge).
	attrGeneration = "gn"
	// attrBorn is when the item was created with counters of zero, epoch seconds.
	attrBorn = "bn"
	// attrHeldUntil is the instant until which what was taken ahead may be held.
	attrHeldUntil = "hu"
)

// Prefixes of what a limit has in a bucket item only once tokens were taken ahead of it.
// Other clients find limits by what begins with "b_".
const (
	prefixHeld  = "o_" // what may be held of it, as a negative number: see Ahead
	prefixEnded = "x_" // counter of what was taken ahead and never granted
)

// What a limit has in a bucket item: the attribute is "b_", its name, "_" and one of these.
const (
	fieldTokens   = "tk" // level
	fieldCapacity = "cp"
	fieldAmount   = "ra" // refill amount
	fieldPeriod   = "rp" // refill period
	fieldUsed     = "tc" // counter of what was taken
	// fieldSoft is there for a soft limit. Python clients keep an instant in it up to which
	// they need not ask their configuration; ours is over, so they do.
	fieldSoft = "soft"
	// fieldFloors are the floors of a limit, in its configuration.
	fieldFloors = "fl"
	// fieldAhead is for how long, in milliseconds, tokens of a limit may be held that are taken
	// ahead, in its configuration.
	fieldAhead = "ah"
)

// attrLimit returns what a limit has in a bucket item: its attribute of a field.
func attrLimit(limit, field string) string { return "b_" + limit + "_" + field }

// fields are what all limits have that are kept by their level, in the order of limitNames.level.
// Quotas have more, see quota.go.
var fields = [...]string{fieldTokens, fieldCapacity, fieldAmount, fieldPeriod, fieldUsed}

// limitNames are the attributes of one limit that each write needs, or each answer.
type limitNames struct {
	tokens, capacity, amount, period, used string
	soft, schedule, held, ended, epoch     string
}

// level returns the attributes that all limits have that are kept by their level.
func (n *limitNames) level() [len(fields)]string {
	return [...]string{n.tokens, n.capacity, n.amount, n.period, n.used}
}

// namesOf returns the attributes of a limit. It must not be changed.
func namesOf(limit string) *limitNames {
	if known, ok := knownLimits.Load(limit); ok {
		return known.(*limitNames)
	}
	n := &limitNames{
		attrLimit(limit, fieldTokens), attrLimit(limit, fieldCapacity), attrLimit(limit, fieldAmount),
		attrLimit(limit, fieldPeriod), attrLimit(limit, fieldUsed),
		attrLimit(limit, fieldSoft), attrLimit(limit, fieldSchedule), prefixHeld + limit, prefixEnded + limit,
		slotsAttr(limit, fieldEpoch),
	}
	if len(limit) <= 64 && knownLimitCount.Add(1) <= maxKnownLimits {
		knownLimits.Store(limit, n)
	}
	return n
}

// The attribute names of the limits met first are kept; the number is bounded because names come
// from anywhere.
var (
	knownLimits     sync.Map // limit name -> *limitNames
	knownLimitCount atomic.Int64
)

const maxKnownLimits = 1024

// Attributes of the other records. Usage snapshots have theirs in usageitem.go.
const (
	attrName            = "name"
	attrMetadata        = "metadata"
	attrCreatedAt       = "created_at"
	attrOnUnavailable   = "on_unavailable"
	attrAuditRetention  = "audit_retention_days"
	attrConfigVersion   = "config_version"
	attrResources       = "resources"
	attrManagedSystem   = "managed_system"
	attrManagedRes      = "managed_resources"
	attrManagedEntities = "managed_entities"
	attrManagedPages    = "managed_pages"
	attrLastApplied     = "last_applied"
	attrAppliedHash     = "applied_hash"
	attrEventID         = "event_id"
	attrTimestamp       = "timestamp"
	attrAction          = "action"
	attrPrincipal       = "principal"
	attrDetails         = "details"
	attrSchemaVersion   = "schema_version"
	attrLambdaVersion   = "lambda_version"
	attrClientMin       = "client_min_version"
	attrUpdatedAt       = "updated_at"
	attrUpdatedBy       = "updated_by"
	attrNamespaceID     = "namespace_id"
	attrNamespaceName   = "namespace_name"
	attrStatus          = "status"
	attrDeletedAt       = "deleted_at"
)
