package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Shard is one stored shard of a bucket: its identity and its state.
type Shard struct {
	Namespace, Entity, Resource string
	State                       bucket.State
	TTL                         int64  // epoch seconds, 0: does not expire
	Cascade                     bool   // copy of the entity's flag, which other clients rely on
	Parent                      string // copy of the entity's parent, empty: none
	// Generation is one life of the item under one set of rules, see [Began]; 0 if another client
	// made it.
	Generation int64
	// Born is when the item was created, epoch seconds, by its creator's clock: the counters have
	// grown from zero since. 0: unknown, because another client or an older version made the item.
	Born int64
	// Denied is the number of denied requests, in thousandths.
	Denied int64
	// Outgrown holds, by attribute, the counters of limits that no longer fit 64 bits. State has
	// their low bits.
	Outgrown map[string]item.Value
	// Calendars holds the stored attributes of quota calendars.
	Calendars Calendars
	// NoShardCount is set if the item lacks the attribute, and so counts as one shard.
	NoShardCount bool
	// Partial lists limits that are only partly stored, as another client's write to a deleted item
	// leaves them. They are not part of State; the next charge that wants them completes them.
	Partial []PartialLimit
}

// PartialLimit is a limit with missing attributes. It has the level, and the counter if that is
// stored, in millitokens.
type PartialLimit struct {
	Name   string
	Tokens int64
	Used   int64
}

// Calendars holds the attributes that an item stores for the calendars of its quotas.
type Calendars struct {
	Zone  string // of calendars of version 1
	Until int64  // vu; 0: the next process must read the calendars
	Has   bool   // there is a vu
	// Schedule is set if one schedule applies to all limits without their own, as Python stores it.
	Schedule bool
}

// Key returns the key of the bucket's item.
func (b Shard) Key() item.Key {
	return layout.BucketKey(b.Namespace, b.Entity, b.Resource, b.State.Shard)
}

// identity lists the attributes, besides the key, that identify a bucket item and put it into the
// indexes.
var identity = []string{
	layout.AttrEntityID, layout.AttrResource, layout.AttrCascade, layout.AttrParentID, item.AttrGSI2PK, item.AttrGSI2SK,
	item.AttrGSI3PK, item.AttrGSI3SK, item.AttrGSI4PK, item.AttrGSI4SK,
}
