package ledger

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const usagePart = "USAGE#"

// Audits queries the events about a subject, newest first, down to the event with the id last,
// inclusive; if last is empty, all of them.
func Audits(ns, subject, last string) item.Query {
	q := item.Query{PK: ns + "/" + layout.AuditPKPart + subject, Prefix: layout.SKAuditPrefix, Descending: true,
		Consistent: true}
	if last != "" {
		q.Prefix, q.From, q.To = "", layout.SKAuditPrefix, layout.SKAuditPrefix+last
	}
	return q
}

// AllAudits queries the keys of the events about all subjects of a namespace.
func AllAudits(ns string) item.Query {
	return item.Query{Index: layout.IndexGSI4, PK: ns, Prefix: ns + "/" + layout.AuditPKPart}
}

// AuditID returns the ID of the event at a key.
func AuditID(k item.Key) string { return strings.TrimPrefix(k.SK, layout.SKAuditPrefix) }

// UsageOfEntity queries the snapshots of an entity on a resource; empty means all resources. With a
// resource, from and to bound the starts of the windows, as prefixes in RFC 3339; empty ones have
// no effect.
func UsageOfEntity(ns, entity, resource, from, to string) item.Query {
	q := item.Query{PK: layout.EntityPK(ns, entity), Prefix: layout.SKUsagePrefix, Consistent: true}
	if resource != "" {
		return between(q, layout.SKUsagePrefix+resource+"#", from, to)
	}
	return q
}

// UsageOfResource queries the keys of the snapshots of all entities on a resource; from and to are
// as in [UsageOfEntity].
func UsageOfResource(ns, resource, from, to string) item.Query {
	return between(item.Query{Index: layout.IndexGSI2, PK: layout.ResourcePK(ns, resource)}, usagePart, from, to)
}

// UsageBefore queries the snapshots of an entity on a resource before the one at the key, of all
// kinds, latest first.
func UsageBefore(k item.Key) item.Query {
	from := k.SK[:strings.LastIndexByte(k.SK, '#')+1]
	return item.Query{PK: k.PK, From: from, To: k.SK, Descending: true, Consistent: true}
}

// between bounds the rest of a sort key after prefix. A key whose rest begins with to is included.
func between(q item.Query, prefix, from, to string) item.Query {
	q.Prefix = prefix
	if from != "" || to != "" {
		q.Prefix, q.From, q.To = "", prefix+from, prefix+to+last
	}
	return q
}

// last sorts after everything that follows a prefix.
const last = "\U0010ffff"
