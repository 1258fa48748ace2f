// Package admin manages everything that the limiter works with: namespaces, entities and stored
// limits; it reads buckets, usage and the audit trail. It shares the table, item by item, with the
// Python zae-limiter.
//
// [Open] returns a [Table], whose methods manage namespaces. [Table.Namespace] returns a
// [Namespace], which manages the contents of one. Both are safe for concurrent use and hold nothing
// that must be closed. By topic, with the types that only this topic has:
//
//	namespaces  Register, Lookup, Namespaces; DeleteNamespace, Orphans, RecoverNamespace,
//	            PurgeNamespace: NamespaceInfo, NamespaceStatus
//	limits      SetLimits, ChangeLimits, DeleteLimits at a Scope; Reach: Reached. Stored
//	            ones: Config, Configs. In force for a request: Resolve: Resolved
//	access      SetAccess: Access, whether requests are served at all; SetCascade: Cascade, whether
//	            parents are charged too; Config shows both
//	manifests   Plan, Apply of a Manifest, which package admin/manifest reads: Step, Action
//	entities    CreateEntity, UpdateEntity, MoveEntity, DeleteEntity; Entity, Children
//	buckets     Peek, Buckets: Bucket, Level; Reset, Credit, and of limits Raise and RaiseFor: Raise,
//	            each once for an id with Once
//	records     Usage, UsageSummary: UsageQuery, Window; Thresholds of quotas; Events and
//	            AllEvents: Event. As names the principal of changes
//	settings    Configure takes Settings, Config shows them; Version of the table
//
// # What every call has in common
//
// Calls block until they are done, bounded by ctx; Options.Timeout bounds each request to DynamoDB.
// Whatever can be repeated without harm is repeated: reads, deletes, and every change, because a
// change is a transaction with a token of its own. So a change whose answer was lost is made once.
//
// A change and the audit event that records it are one transaction. It fails with ErrNamespace if
// the namespace has been deleted; Apply checks that once for each hundred changes. Changes of
// limits, entities and buckets are recorded, changes of namespaces are not.
//
// Listings are iterators that read page by page. An error ends the listing and is the last thing it
// yields. Listings that find items by an index (children, buckets, entities with limits) may lag
// behind changes by a moment.
//
// All other errors match one of package limiter by errors.Is: ErrInvalid, ErrNamespace, ErrVersion,
// ErrUnavailable or ErrUnknown. With ErrUnavailable nothing was changed. With ErrUnknown the last
// answer was lost, and the change may have been made. An error that ctx has caused is also
// context.Canceled or DeadlineExceeded.
package admin
