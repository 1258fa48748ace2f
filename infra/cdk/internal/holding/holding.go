// Package holding names the resources of a limiter that hold data. It is separate from the
// constructs, so protecting a stack needs no Node.
package holding

// The logical ids of the resources that hold data, in a stack with a single limiter. They must
// never change.
const (
	Table         = "Table"
	Archive       = "ArchiveBucket"
	FailedRecords = "FailedRecordsBucket"
)

// IDs returns all of them.
func IDs() []string { return []string{Table, Archive, FailedRecords} }
