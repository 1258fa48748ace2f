// Package holding names the resources of a limiter that hold data. It is apart from the constructs,
// so that protecting a stack needs no Node.
package holding

// The logical ids of the resources that hold data, in a limiter that is its stack's only one. They
// must never change.
const (
	Table         = "Table"
	Archive       = "ArchiveBucket"
	FailedRecords = "FailedRecordsBucket"
)

// IDs returns all of them.
func IDs() []string { return []string{Table, Archive, FailedRecords} }
