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
	Cascade                     bool   // copy of the entity's flag, as other clients trust it
	Parent                      string // copy of the entity's parent, empty: none
	// Generation is one life of the item under one set of rules, see [Began]; 0 if another client
	// made it.
	Generation int64
	// Born is when the item was created, epoch seconds, by the clock of its
	// creator: since then the counters have grown from zero. 0: not known, because
	// another client or an older version made the item.
	Born int64
	// Denied is how many requests were denied, in thousandths.
	Denied int64
	// Outgrown holds, by attribute, the counters of limits that no longer fit 64 bits, of
	// which State has the low ones.
	Outgrown map[string]item.Value
	// Calendars holds the stored attributes of quota calendars.
	Calendars Calendars
	// NoShardCount is set when the item lacks the attribute and so counts as
	// one shard.
	NoShardCount bool
	// Partial lists limits of which only some attributes are stored, as a
	// foreign write to a deleted item leaves them. They are no part of State
	// and are mended by the next charge that wants them.
	Partial []PartialLimit
}

// PartialLimit is a limit with attributes missing. It has the level and the counter in millitokens,
// if they are there.
type PartialLimit struct {
	Name      string
	Tokens    int64
	Used      int64
	HasTokens bool
}

// Calendars holds the attributes that an item stores for the calendars of its quotas.
type Calendars struct {
	Zone  string // of calendars of version 1
	Until int64  // vu; 0: the next process must look
	Has   bool   // there is a vu
	// Schedule is set if there is a schedule for all limits that have none of their own, as Python stores it.
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
