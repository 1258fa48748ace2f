package table_test

import (
	"math/big"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A charge is planned from an image, and others have taken more by the time it is
// written. For every pair around empty and full: if the write holds, what the item
// then stands for is what charging that very item would have left, less at most
// what others took, and less nothing at all unless the image was filling up. It is
// refused only if that would leave a debt.
func TestChargeFromStaleImageIsExactOrLower(t *testing.T) {
	const now = 1_700_000_000_000
	limit := bucket.Limit{Name: "rpm", Capacity: 12, Amount: 3, Period: 2}
	stored := func(tokens, rest, used int64) table.Shard {
		b := table.Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: 7}
		b.State = bucket.New([]bucket.Limit{limit}, 0, 1, now)
		b.State.Slots[0].Tokens, b.State.Slots[0].Rest, b.State.Slots[0].Used = tokens, rest, used
		return b
	}
	held, lower, refused := 0, 0, 0
	for elapsed := int64(-1); elapsed <= 9; elapsed++ {
		for tokens := int64(-3); tokens <= 14; tokens++ {
			for rest := range int64(2) {
				for cost := range int64(5) {
					image := stored(tokens, rest, 100)
					c := table.Charge{Image: image, Now: now + elapsed}
					if cost > 0 {
						c.Costs = table.Costs([]bucket.Limit{limit}, cost-1)
					}
					plan := c.Plan()
					if !plan.Verdict.Granted {
						continue
					}
					exact := buckettest.NewExact(tokens, rest, image.State.Rate(0)).After(max(elapsed, 0)).Level
					for others := int64(0); others <= 16; others++ {
						after, ok, err := plan.Update.Apply(stored(tokens-others, rest, 100+others).Item())
						if err != nil {
							t.Fatal(err)
						}
						left := plan.Before.Slots[0].Tokens - max(cost-1, 0) - others
						if wanted := left >= 0 || cost == 0 && plan.Before.Slots[0].Tokens < 0; ok != wanted {
							t.Fatalf("level %d rest %d cost %d after %d ms, others took %d: held %v", tokens, rest, cost, elapsed, others,
								ok)
						}
						if !ok {
							refused++
							continue
						}
						held++
						got := decode(t, after)
						have := buckettest.LevelAt(got.State, 0, now+elapsed)
						most := buckettest.NewExact(tokens-others, rest, got.State.Rate(0)).After(max(elapsed, 0)).Level
						most = new(big.Rat).Sub(most, buckettest.Milli(max(cost-1, 0)))
						least := new(big.Rat).Sub(exact, buckettest.Milli(max(cost-1, 0)+others))
						if have.Cmp(least) != 0 {
							t.Errorf("level %d rest %d cost %d after %d ms, others took %d: holds %s, planned %s",
								tokens, rest, cost, elapsed, others, have.FloatString(3), least.FloatString(3))
						}
						if have.Cmp(most) > 0 {
							t.Errorf("level %d rest %d cost %d after %d ms, others took %d: holds %s, there are %s",
								tokens, rest, cost, elapsed, others, have.FloatString(3), most.FloatString(3))
						}
						if have.Cmp(most) < 0 {
							lower++
							if exact.Cmp(buckettest.Milli(limit.Capacity)) < 0 {
								t.Errorf("level %d rest %d cost %d after %d ms, others took %d: lost refill while filling",
									tokens, rest, cost, elapsed, others)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d writes held, %d of them lower than the level, near full; %d refused", held, lower, refused)
}
