package table_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A refill is planned from an image, and the item has another level by the time
// it is written. For every pair of levels around the capacity: if the write
// holds, what the item then stands for is exactly what refilling that very item
// would have given, no fraction more and none less.
func TestRefillFromStaleLevelIsExactOrRefused(t *testing.T) {
	const now = 1_700_000_000_000
	limit := bucket.Limit{Name: "rpm", Capacity: 12, Amount: 3, Period: 2}
	item := func(tokens, rest int64) table.Bucket {
		b := table.Bucket{Namespace: "ns", Entity: "e", Resource: "r"}
		b.State = bucket.New([]bucket.Limit{limit}, 0, 1, now)
		b.State.Slots[0].Tokens, b.State.Slots[0].Rest = tokens, rest
		return b
	}
	held, refused := 0, 0
	for elapsed := int64(-1); elapsed <= 9; elapsed++ {
		for image := int64(-3); image <= 14; image++ {
			for rest := range int64(2) {
				seen := item(image, rest)
				plan := table.Refill{Image: seen, Now: now + elapsed}.Plan()
				for actual := int64(-3); actual <= 15; actual++ {
					after, ok, err := plan.Update.Apply(item(actual, rest).Item())
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						refused++
						if actual == image {
							t.Errorf("level %d rest %d after %d ms: refused by the very image it was planned from", image, rest, elapsed)
						}
						continue
					}
					held++
					got, err := table.DecodeBucket(after)
					if err != nil {
						t.Fatal(err)
					}
					want := buckettest.NewExact(actual, rest, got.State.Rate(0)).After(elapsed).Level
					if actual == limit.Capacity && image < actual {
						// Refilled to the brim: a fraction on top of it may go.
						want = buckettest.Milli(limit.Capacity)
					}
					have := buckettest.LevelAt(got.State, 0, now+elapsed)
					if have.Cmp(want) != 0 {
						t.Errorf("planned from level %d rest %d, written on %d after %d ms: holds %s, want %s",
							image, rest, actual, elapsed, have.FloatString(3), want.FloatString(3))
					}
				}
			}
		}
	}
	t.Logf("%d writes held, all exact; %d refused", held, refused)
}
