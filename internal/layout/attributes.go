package layout

// Attributes of several kinds of record.
const (
	AttrTTL       = "ttl" // epoch seconds, the table's TTL attribute
	AttrEntityID  = "entity_id"
	AttrResource  = "resource"
	AttrCascade   = "cascade"
	AttrParentID  = "parent_id"
	AttrCreatedAt = "created_at"
	AttrName      = "name"
	AttrZone      = "sched_tz" // shared by all calendars of version 1
)

// Attributes of a limit in a bucket item and in a configuration: a prefix, the limit's name, "_"
// and one of these.
const (
	FieldCapacity = "cp"
	FieldAmount   = "ra" // refill amount
	FieldPeriod   = "rp" // refill period
	// FieldSoft marks a soft limit. Python clients store an instant in it until which they need not
	// read their configuration; ours is in the past, so they always read it.
	FieldSoft     = "soft"
	FieldCalendar = "rsched"
	FieldSchedule = "sched" // other parameters at certain times
	FieldLength   = "rsa"   // seconds after the first use
	FieldRaises   = "more"  // raises, ours only
)

// AttrRF is the refill instant of a bucket, AttrWindow the kind of window of a usage snapshot.
const (
	AttrRF     = "rf"
	AttrWindow = "window"
)
