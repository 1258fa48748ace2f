package table

import (
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// BucketsOfEntity queries the keys of all bucket shards of an entity.
func BucketsOfEntity(ns, entity string) item.Query {
	return item.Query{Index: layout.IndexGSI3, PK: layout.EntityPK(ns, entity), Prefix: layout.BucketPKPart}
}

// BucketsOfResource queries the keys of all bucket shards of a resource.
func BucketsOfResource(ns, resource string) item.Query {
	return item.Query{Index: layout.IndexGSI2, PK: layout.ResourcePK(ns, resource), Prefix: layout.BucketPKPart}
}

// BucketsOfNamespace queries the keys of all bucket shards of a namespace.
func BucketsOfNamespace(ns string) item.Query {
	return item.Query{Index: layout.IndexGSI4, PK: ns, Prefix: layout.BucketPKPart}
}
