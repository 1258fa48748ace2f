// Package layout has the common parts of all records of the single table: keys and their escapes,
// the names of indexes, and the attributes that several kinds of record have. The Python
// zae-limiter shares this wire format.
//
// The records are in three packages: internal/table has buckets, internal/config has limits,
// entities and namespaces, internal/ledger has usage and audit. No other package knows names of the
// table.
package layout
