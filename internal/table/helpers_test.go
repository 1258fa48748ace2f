package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

// create creates a bucket at an instant.
func create(now int64, costs []Cost) (item.Put, Shard) {
	return Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: now, Costs: costs, Draw: 7})
}

// addAt returns a plain add to a bucket with one shard.
func addAt(now int64, costs []Cost) Add {
	return Add{Namespace: "ns", Entity: "e", Resource: "r", Shards: 1, Now: now, Room: 50, Costs: costs}
}

var applied = itemtest.Applied

func decode(t *testing.T, it item.Item) Shard {
	t.Helper()
	b, err := DecodeShard(it)
	check.Must(t, err)
	return b
}

// imageOf returns a full shard of the bucket that the tests use.
func imageOf(generation int64, limits []bucket.Limit, shard, shards int, now int64) Shard {
	return Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: generation,
		State: bucket.New(limits, shard, shards, now)}
}

// The same for the tests of package table_test.
var MadeAt, AddAt, Applied, Decoded, ImageOf = create, addAt, applied, decode, imageOf
