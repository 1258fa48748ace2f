package ledger

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Attributes of audit events. The archiver reads them in stored form, without [Audit].
const (
	AttrEventID   = "event_id"
	AttrAt        = "timestamp"
	AttrAction    = "action"
	AttrPrincipal = "principal"
	AttrDetails   = "details"
)

// The actions of audit events. Other clients know the first four.
const (
	ActionEntityCreated  = "entity_created"
	ActionEntityDeleted  = "entity_deleted"
	ActionLimitsSet      = "limits_set"
	ActionLimitsDeleted  = "limits_deleted"
	ActionEntityUpdated  = "entity_updated"
	ActionBucketReset    = "bucket_reset"
	ActionBucketCredited = "bucket_credited"
	ActionLimitsRaised   = "limits_raised"
	ActionRaisesEnded    = "raises_ended"
)

// Audit is one audit event: the actor, the action and its subject. It is written once and removed
// by its ttl.
type Audit struct {
	Namespace string
	Subject   string // entity id, [layout.AuditSystem] or [layout.AuditResourcePrefix] and a resource
	ID        string // ULID
	At        string // see [layout.Timestamp]
	Action    string
	Principal string    // empty: unknown
	Resource  string    // empty: none
	Details   item.Item // nil and empty are equivalent
	TTL       int64     // epoch seconds, 0: does not expire
}

// Key returns the key of the event.
func (a Audit) Key() item.Key { return layout.AuditKey(a.Namespace, a.Subject, a.ID) }

// Item returns the event in stored form.
func (a Audit) Item() item.Item {
	k := a.Key()
	it := k.Item()
	it[layout.AttrEntityID], it[AttrEventID] = item.S(a.Subject), item.S(a.ID)
	it[AttrAt], it[AttrAction] = item.S(a.At), item.S(a.Action)
	it[AttrPrincipal], it[layout.AttrResource] = item.StringOrNull(a.Principal), item.StringOrNull(a.Resource)
	details := a.Details
	if details == nil {
		details = item.Item{}
	}
	it[AttrDetails] = item.Map(details)
	if a.TTL > 0 {
		it[layout.AttrTTL] = item.N(a.TTL)
	}
	return layout.WithGSI4(it, a.Namespace, k.PK)
}

// Create stores the event. Sending it again does no harm.
func (a Audit) Create() item.Put { return item.Put{Item: a.Item()} }

// DecodeAudit decodes an audit event.
func DecodeAudit(it item.Item) (Audit, error) {
	r := item.Reader{It: it}
	var a Audit
	a.Namespace, a.Subject = layout.Under(&r, layout.AuditPKPart)
	id, ok := strings.CutPrefix(item.KeyOf(it).SK, layout.SKAuditPrefix)
	if !ok || id == "" {
		r.Fail("%w", item.ErrKey)
	}
	a.ID = id
	a.At, a.Action = r.Str(AttrAt), r.Need(AttrAction)
	a.Principal, a.Resource = r.Str(AttrPrincipal), r.Str(layout.AttrResource)
	a.Details = r.Entries(AttrDetails)
	a.TTL = r.Int(layout.AttrTTL)
	return item.Decoded(&r, "audit", a)
}

// BucketLevels returns the details of raised levels, in whole tokens by limit, with the id of the
// operation if it has one.
func BucketLevels(tokens map[string]int64, id string) item.Item {
	m := make(item.Item, len(tokens))
	for limit, n := range tokens {
		m[limit] = item.N(n)
	}
	d := item.Item{"tokens": item.Map(m)}
	if id != "" {
		d["id"] = item.S(id)
	}
	return d
}
