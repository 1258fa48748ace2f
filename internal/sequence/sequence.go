// Package sequence compares the sequence numbers of stream records.
package sequence

import (
	"cmp"
	"strings"
)

// MaxDigits is the greatest number of digits of a sequence number (AWS API reference, DynamoDB
// Streams StreamRecord).
const MaxDigits = 40

// Compare returns -1, 0 or 1 if a is before, at or after b in the stream. They are compared as
// decimal numbers, ignoring leading zeros. The empty sequence number comes before every other,
// because resuming at it repeats the whole batch.
func Compare(a, b string) int {
	if a == "" || b == "" || len(a) == len(b) {
		return strings.Compare(a, b)
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
