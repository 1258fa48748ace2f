package layout

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Timestamp formats an instant in epoch milliseconds as records store it: UTC, whole seconds, with
// a Z.
func Timestamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z")
}

// PutText sets a string attribute unless the string is empty.
func PutText(it item.Item, attr, s string) {
	if s != "" {
		it[attr] = item.S(s)
	}
}

// Under returns the namespace in an item's key, and the rest of the partition key after prefix.
func Under(r *item.Reader, prefix string) (ns, rest string) {
	ns, rest, ok := CutNamespace(item.KeyOf(r.It).PK)
	if ok {
		rest, ok = strings.CutPrefix(rest, prefix)
	}
	if !ok || ns == "" {
		r.Fail("%w", item.ErrKey)
	}
	return ns, rest
}

// IsWhole reports whether an item from an index is complete, rather than its keys only.
func IsWhole(it item.Item) bool {
	_, bucket := it[AttrRF].(*types.AttributeValueMemberN)
	_, usage := it[AttrWindow].(*types.AttributeValueMemberS)
	return bucket || usage
}
