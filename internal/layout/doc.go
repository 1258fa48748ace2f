// Package layout has the parts that all records of the single table share: keys and their escapes,
// index names, and the attributes of several kinds of record. The Python zae-limiter shares this
// wire format.
//
// The records are in three packages: internal/table has buckets, internal/config has limits,
// entities and namespaces, internal/ledger has usage and audit. No other package uses names of the
// table.
package layout
