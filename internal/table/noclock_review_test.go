package table_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A shard without a refill instant, as foreign hands leave it, is split into two
// without one: an instant of zero would refill the new shard since 1970.
func TestSplitWithoutClockMintsNothing(t *testing.T) {
	const now = 1_700_000_000_000
	limits := []bucket.Limit{{Name: "rpm", Capacity: 60_000, Amount: 60_000, Period: 60_000}}
	b := table.Bucket{Namespace: "ns", Entity: "e", Resource: "r", State: bucket.New(limits, 0, 1, now)}
	b.State.NoClock, b.State.RF = true, 0
	b.State.Slots[b.State.Index("rpm")].Tokens = 10_000
	writes := table.Split(b)
	held := int64(0)
	before := b.Item()
	delete(before, "rf")
	for i, it := range []item.Item{before, nil} {
		after, ok, err := writes[i].Apply(it)
		if err != nil || !ok {
			t.Fatalf("write %d: held %v, %v", i, ok, err)
		}
		half, err := table.DecodeBucket(after)
		if err != nil {
			t.Fatal(err)
		}
		at := half.State.At(now)
		held += at.Slots[at.Index("rpm")].Tokens
	}
	if held != 10_000 {
		t.Errorf("the halves hold %s, want what there was: 10", bucket.Tokens(held))
	}
}
