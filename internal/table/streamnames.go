package table

// The stream decoder matches these names byte by byte instead of building items. They are
// attributes of bucket items, and the parts of a limit's attribute name: LimitPrefix + limit + "_"
// + field.
const (
	AttrRF         = attrRF
	AttrShardCount = attrShardCount
	AttrCascade    = attrCascade
	AttrParentID   = attrParentID
	AttrRemainders = attrRemainders

	// AttrGeneration is the generation of the item, a number: it is the same as
	// long as the item lives under the same rules, and a later one is higher.
	AttrGeneration = attrGeneration

	// AttrBorn is when the item was created, epoch seconds, and its counters began
	// at zero.
	AttrBorn = attrBorn

	// RemaindersRF and RemaindersOf are the entries of the remainder map.
	RemaindersRF = attrRF
	RemaindersOf = remaindersOf
	// EndsOf is its entry for the ends of the periods of quotas.
	EndsOf = endsOf

	// AttrHeldUntil is the instant until which what was taken ahead may be held.
	// HeldPrefix and EndedPrefix begin what a limit has of that, before its name.
	AttrHeldUntil = attrHeldUntil
	HeldPrefix    = prefixHeld
	EndedPrefix   = prefixEnded

	LimitPrefix   = "b_"
	FieldTokens   = fieldTokens
	FieldCapacity = fieldCapacity
	FieldAmount   = fieldAmount
	FieldPeriod   = fieldPeriod
	FieldUsed     = fieldUsed
	FieldSoft     = fieldSoft
)
