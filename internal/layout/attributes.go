package layout

// Attributes that several kinds of record have.
const (
	AttrTTL       = "ttl" // epoch seconds, the table's TTL attribute
	AttrEntityID  = "entity_id"
	AttrResource  = "resource"
	AttrCascade   = "cascade"
	AttrParentID  = "parent_id"
	AttrCreatedAt = "created_at"
	AttrName      = "name"
	AttrZone      = "sched_tz" // of all calendars of version 1
)

// The attributes of a limit in the item of a bucket and in a configuration: a prefix, the name of
// the limit, "_" and one of these.
const (
	FieldCapacity = "cp"
	FieldAmount   = "ra" // refill amount
	FieldPeriod   = "rp" // refill period
	// FieldSoft is there for a soft limit. Python clients keep an instant in it up to which
	// they need not ask their configuration; ours is over, so they do.
	FieldSoft     = "soft"
	FieldCalendar = "rsched"
	FieldSchedule = "sched" // other parameters at some times
	FieldLength   = "rsa"   // seconds after the first use
	FieldRaises   = "more"  // raises, ours only
)

// AttrRF is the refill instant of a bucket, and AttrWindow the kind of window of a usage snapshot.
const (
	AttrRF     = "rf"
	AttrWindow = "window"
)
