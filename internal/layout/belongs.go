package layout

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Belongs reports whether the item at a key may be a result of a query. The keys of an index are
// attributes: a program that may write in one namespace can give an item the index keys of another,
// and no policy prevents it. So an index only finds an item; the item's own key decides.
func Belongs(q item.Query, k item.Key) bool {
	if q.Index == "" {
		return true
	}
	ns, rest, ok := CutNamespace(k.PK)
	of, asked, found := CutNamespace(q.PK)
	if !ok || ns != of || found == (q.Index == IndexGSI4) {
		return false
	}
	_, entity, resource, _, bucket := ParseBucketPK(k.PK)
	inEntity := strings.HasPrefix(rest, EntityPKPart)
	switch q.Index {
	case IndexGSI1:
		return inEntity && k.SK == SKMeta
	case IndexGSI2:
		of := strings.TrimPrefix(asked, ResourcePKPart)
		if q.Prefix == BucketPKPart {
			return bucket && resource == of
		}
		return inEntity && strings.HasPrefix(k.SK, SKUsagePrefix+of+"#")
	case IndexGSI3:
		if of, ok := strings.CutPrefix(asked, EntityPKPart); ok {
			return bucket && entity == of
		}
		return inEntity && k.SK == SKConfig+"#"+strings.TrimPrefix(asked, EntityConfigPart)
	}
	return strings.HasPrefix(k.PK, ns+"/"+strings.TrimPrefix(q.Prefix, ns+"/"))
}
