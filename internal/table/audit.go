package table

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Subjects of audit events that are no entity.
const (
	AuditSystem         = "$SYSTEM"
	AuditResourcePrefix = "$RESOURCE:"
)

// Names for who reads audit events as they are stored, not as [Audit]: the
// attributes, and what stands between namespace and subject in the partition key.
const (
	AttrEntityID  = attrEntityID
	AttrEventID   = attrEventID
	AttrAction    = attrAction
	AttrAt        = attrTimestamp
	AttrPrincipal = attrPrincipal
	AttrResource  = attrResource
	AttrDetails   = attrDetails

	AuditPKPart = "AUDIT#"
)

// Audit is one audit event: who did what to whom. It is written once and
// removed by its ttl.
type Audit struct {
	Namespace string
	Subject   string // entity id, [AuditSystem] or [AuditResourcePrefix] and a resource
	ID        string // ULID
	At        string // see [Timestamp]
	Action    string
	Principal string    // empty: not known
	Resource  string    // empty: none
	Details   item.Item // nil and empty are the same
	TTL       int64     // epoch seconds, 0: does not expire
}

// Key returns the key of the event.
func (a Audit) Key() item.Key { return AuditKey(a.Namespace, a.Subject, a.ID) }

// Item returns the event as it is stored.
func (a Audit) Item() item.Item {
	k := a.Key()
	it := newItem(k)
	it[attrEntityID], it[attrEventID] = item.S(a.Subject), item.S(a.ID)
	it[attrTimestamp], it[attrAction] = item.S(a.At), item.S(a.Action)
	it[attrPrincipal], it[attrResource] = sOrNull(a.Principal), sOrNull(a.Resource)
	details := a.Details
	if details == nil {
		details = item.Item{}
	}
	it[attrDetails] = item.Map(details)
	if a.TTL > 0 {
		it[AttrTTL] = item.N(a.TTL)
	}
	return gsi4(item.Item(it), a.Namespace, k.PK)
}

// Create stores the event; sending it again does no harm.
func (a Audit) Create() item.Put { return item.Put{Item: a.Item()} }

// DecodeAudit reads an audit event.
func DecodeAudit(it item.Item) (Audit, error) {
	r := reader{it: it}
	var a Audit
	a.Namespace, a.Subject = r.under(AuditPKPart)
	id, ok := strings.CutPrefix(item.KeyOf(it).SK, SKAuditPrefix)
	if !ok || id == "" {
		r.fail("%w", errKey)
	}
	a.ID = id
	a.At, a.Action = r.str(attrTimestamp), r.need(attrAction)
	a.Principal, a.Resource = r.str(attrPrincipal), r.str(attrResource)
	a.Details = r.entries(attrDetails)
	a.TTL = r.int(AttrTTL)
	if err := r.named("audit"); err != nil {
		return Audit{}, err
	}
	return a, nil
}
