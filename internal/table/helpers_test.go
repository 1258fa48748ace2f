package table

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

// newRate returns a rate of so many millitokens in a period of so many milliseconds.
func newRate(name string, capacity, period int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: capacity, Amount: capacity, Period: period}
}

// newRates returns rates named l00, l01 and so on, from a number on.
func newRates(first, n int) (out []bucket.Limit) {
	for i := range n {
		out = append(out, newRate(fmt.Sprintf("l%02d", first+i), 60_000, 60_000))
	}
	return out
}

func newQuota(name string, capacity int64, reset string) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: capacity, Period: bucket.QuotaPeriod, Reset: reset}
}

// create creates a bucket at an instant.
func create(now int64, costs []Cost) (item.Put, Shard) {
	return Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: now, Costs: costs, Draw: 7})
}

// addAt returns a plain add to a bucket with one shard.
func addAt(now int64, costs []Cost) Add {
	return Add{Namespace: "ns", Entity: "e", Resource: "r", Shards: 1, Now: now, Room: 50, Costs: costs}
}

// applied returns an item after a write, which must hold.
var applied = itemtest.Applied

// holds reports whether a write holds on an item.
func holds(t *testing.T, w item.Write, on item.Item) bool {
	t.Helper()
	_, held, err := w.Apply(on)
	check.Must(t, err)
	return held
}

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
