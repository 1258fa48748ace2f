package table_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A limit that is dropped starts full when it comes back, so it may go only when
// it is full, whatever the image said: others may have emptied it since, after it
// had been full for long.
func TestLimitIsDroppedOnlyWhenFull(t *testing.T) {
	const now = 1_700_000_000_000
	old := bucket.Limit{Name: "old", Capacity: 12, Amount: 3, Period: 2}
	limit := bucket.Limit{Name: "rpm", Capacity: 1000, Amount: 1000, Period: 1000}
	dropped, kept := 0, 0
	for tokens := int64(0); tokens <= 14; tokens += 2 {
		for others := int64(0); others <= 12; others += 3 {
			for at := int64(0); at <= 20; at += 4 { // when the others charge
				image := table.Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: 7}
				image.State = bucket.New([]bucket.Limit{old}, 0, 1, now)
				image.State.Slots[0].Tokens, image.State.Slots[0].Used = tokens, 100
				stored := image.Item()
				take := table.Charge{Image: image, Costs: table.Costs([]bucket.Limit{old}, others), Now: now + at}.Plan()
				if others > 0 && take.Verdict.Granted {
					stored, _, _ = take.Update.Apply(stored)
				}
				for later := int64(0); later <= 20; later++ {
					drop := table.Charge{Image: image,
						Costs: table.Costs([]bucket.Limit{limit}), Refill: true, Now: now + at + later}.Plan()
					after, held, err := drop.Update.Apply(stored)
					if err != nil {
						t.Fatal(err)
					}
					if _, still := after["b_old_tk"]; !held || still {
						kept++
						continue
					}
					dropped++
					b := decode(t, stored)
					if level := buckettest.LevelAt(b.State, 0, now+at+later); level.Cmp(buckettest.Milli(12)) < 0 {
						t.Errorf("image with %d, others took %d at %d ms: dropped at %d ms with %s of 12",
							tokens, others, at, at+later, level.FloatString(1))
					}
				}
			}
		}
	}
	t.Logf("%d times dropped, %d times kept", dropped, kept)
}

// A name per day: what a limit leaves behind when it is not wanted any more goes
// with it, so the item stays within one write unit.
func TestDroppedLimitsLeaveNothingBehind(t *testing.T) {
	const day = 86_400_000
	now := int64(1_700_000_000_000)
	of := func(i int) []bucket.Limit {
		return []bucket.Limit{
			{Name: "rpm", Capacity: 60_000, Amount: 60_000, Period: 60_000},
			{Name: fmt.Sprintf("day-%03d", i), Capacity: 1_000_000, Amount: 1_000_000, Period: 86_400_000},
		}
	}
	costs := func(i int) []table.Cost {
		return []table.Cost{{Limit: of(i)[0], Milli: 1000}, {Limit: of(i)[1], Milli: 1_000_000}}
	}
	n := table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: costs(0), Lifetime: table.Expires,
		Now: now}
	put, _ := table.Create(n)
	it, largest := put.Item, 0
	for i := 1; i <= 400; i++ {
		now += day
		for range 3 {
			b := decode(t, it)
			plan := table.Charge{Image: b, Costs: costs(i), Now: now, Lifetime: table.Expires}.Plan()
			if !plan.Verdict.Granted {
				break // the day's tokens are gone
			}
			after := applied(t, plan.Update, it)
			it, largest = after, max(largest, item.Size(after))
			now += 1000
		}
	}
	t.Logf("after 400 days %d attributes, at most %d bytes", len(it), largest)
	if largest > 1024 {
		t.Errorf("the item had %d bytes", largest)
	}
}
