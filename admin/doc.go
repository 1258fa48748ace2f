// Package admin manages what the limiter works with: namespaces, entities,
// stored limits, and what buckets, usage and the audit trail say. It shares the
// table, item by item, with the Python zae-limiter.
//
// [Open] gives a [Table], its methods are about namespaces; [Table.Namespace]
// gives a [Namespace], where everything else is. Both are safe for concurrent use
// and hold nothing that must be closed.
//
//	namespaces  Register, Lookup, Namespaces; DeleteNamespace, Orphans, RecoverNamespace, PurgeNamespace
//	limits      SetLimits, ChangeLimits, DeleteLimits at a Scope; Config, Configs, Resolve; Reach
//	access      SetAccess, Access: whether requests are served at all
//	manifests   Plan, Apply of a Manifest, which package admin/manifest reads
//	entities    CreateEntity, UpdateEntity, MoveEntity, DeleteEntity; Entity, Children
//	buckets     Peek, Buckets, Capacity; Reset, Credit, each once for an id with Once
//	records     Usage, UsageSummary; Thresholds of quotas; Events, AllEvents; As says who makes the changes
//	settings    Configure, which Config shows
//
// # What every call has in common
//
// Calls block until they are done, bounded by ctx; Options.Timeout bounds each
// request to DynamoDB. What can be repeated without harm is repeated: reads,
// deletes, and every change, because a change is a transaction with a token of its
// own. So a change whose answer was lost is made once.
//
// A change and the audit event that records it are one transaction, which does not
// happen in a namespace that was deleted meanwhile: the error is ErrNamespace.
// Changes of limits, entities and buckets are recorded, those of namespaces are not.
//
// Listings are iterators that read page by page. An error ends the listing and is
// the last thing it yields. Those that find items by an index (children, buckets,
// entities with limits) may lag behind changes by a moment.
//
// Besides the errors of this package, errors are by errors.Is one of those of
// package limiter: ErrInvalid, ErrNamespace, ErrVersion, ErrUnavailable (nothing
// was changed) or ErrUnknown (the last answer was lost, the change may have been
// made). One that ctx has caused is context.Canceled or DeadlineExceeded too.
package admin
