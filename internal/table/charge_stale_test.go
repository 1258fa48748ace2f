package table

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A charge is planned from an image, and others take tokens before it is written. The table covers
// every pair around empty and full. If the write holds, the item equals one charged from a current
// image, minus at most the tokens that others took, and minus nothing unless the bucket was filling
// up. The write is refused only if it would leave a debt.
func TestChargeFromStaleImageIsExactOrLower(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 12, Amount: 3, Period: 2}
	stored := func(tokens, rest, used int64) Shard {
		b := Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: 7}
		b.State = bucket.New([]bucket.Limit{limit}, 0, 1, sampleNow)
		b.State.Slots[0].Tokens, b.State.Slots[0].Rest, b.State.Slots[0].Used = tokens, rest, used
		return b
	}
	held, lower, refused := 0, 0, 0
	for elapsed := int64(-1); elapsed <= 9; elapsed++ {
		for tokens := int64(-3); tokens <= 14; tokens++ {
			for rest := range int64(2) {
				for cost := range int64(5) {
					image := stored(tokens, rest, 100)
					c := Charge{Image: image, Now: sampleNow + elapsed}
					if cost > 0 {
						c.Costs = Costs([]bucket.Limit{limit}, cost-1)
					}
					plan := c.Plan()
					if !plan.Verdict.Granted {
						continue
					}
					exact := buckettest.NewExact(tokens, rest, image.State.Rate(0)).After(max(elapsed, 0)).Level
					for others := int64(0); others <= 16; others++ {
						name := fmt.Sprintf("level %d rest %d cost %d after %d ms, others took %d",
							tokens, rest, cost, elapsed, others)
						after, ok, err := plan.Update.Apply(stored(tokens-others, rest, 100+others).Item())
						check.Must(t, err)
						left := plan.Before.Slots[0].Tokens - max(cost-1, 0) - others
						check.MustEqual(t, ok, left >= 0 || cost == 0 && plan.Before.Slots[0].Tokens < 0, name)
						if !ok {
							refused++
							continue
						}
						held++
						got := decode(t, after)
						have := buckettest.LevelAt(got.State, 0, sampleNow+elapsed)
						most := buckettest.NewExact(tokens-others, rest, got.State.Rate(0)).After(max(elapsed, 0)).Level
						most = new(big.Rat).Sub(most, buckettest.Milli(max(cost-1, 0)))
						least := new(big.Rat).Sub(exact, buckettest.Milli(max(cost-1, 0)+others))
						check.Equal(t, have.String(), least.String(), name)
						if have.Cmp(most) > 0 {
							t.Errorf("%s: holds %s, there are %s", name, have.FloatString(3), most.FloatString(3))
						}
						if have.Cmp(most) < 0 {
							lower++
							if exact.Cmp(buckettest.Milli(limit.Capacity)) < 0 {
								t.Errorf("%s: lost refill while filling", name)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d writes held, %d of them lower than the level, near full; %d refused", held, lower, refused)
}

// A dropped limit starts full when it returns. So it may be dropped only when it is full, whatever
// the image showed: others may have emptied it since.
func TestLimitIsDroppedOnlyWhenFull(t *testing.T) {
	old := bucket.Limit{Name: "old", Capacity: 12, Amount: 3, Period: 2}
	limit := newRate("rpm", 1000, 1000)
	dropped, kept := 0, 0
	for tokens := int64(0); tokens <= 14; tokens += 2 {
		for others := int64(0); others <= 12; others += 3 {
			for at := int64(0); at <= 20; at += 4 { // when the others charge
				image := Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: 7}
				image.State = bucket.New([]bucket.Limit{old}, 0, 1, sampleNow)
				image.State.Slots[0].Tokens, image.State.Slots[0].Used = tokens, 100
				stored := image.Item()
				take := Charge{Image: image, Costs: Costs([]bucket.Limit{old}, others), Now: sampleNow + at}.Plan()
				if others > 0 && take.Verdict.Granted {
					stored, _, _ = take.Update.Apply(stored)
				}
				for later := int64(0); later <= 20; later++ {
					drop := Charge{Image: image,
						Costs: Costs([]bucket.Limit{limit}), Refill: true, Now: sampleNow + at + later}.Plan()
					after, held, err := drop.Update.Apply(stored)
					check.Must(t, err)
					if _, still := after["b_old_tk"]; !held || still {
						kept++
						continue
					}
					dropped++
					b := decode(t, stored)
					level := buckettest.LevelAt(b.State, 0, sampleNow+at+later)
					if level.Cmp(buckettest.Milli(12)) < 0 {
						t.Errorf("image with %d, others took %d at %d ms: dropped at %d ms with %s of 12",
							tokens, others, at, at+later, level.FloatString(1))
					}
				}
			}
		}
	}
	if t.Logf("%d times dropped, %d times kept", dropped, kept); dropped < 100 || kept < 100 {
		t.Error("too few limits dropped or kept")
	}
}

// After huge settlements and give-backs the item stays readable, and the bucket works again once
// the debt is paid.
func TestSettlementsBeyond64BitsLeaveABucketThatWorks(t *testing.T) {
	const most = 1_000_000_000_000_000_000 // the largest cost of one call, in millitokens
	limits := []bucket.Limit{newRate("rpm", 10_000, 60_000)}
	for _, sign := range []int64{1, -1} {
		put, _ := create(sampleNow, Costs(limits))
		stored := put.Item
		settle := func(milli int64, plain bool) {
			t.Helper()
			costs := Costs(limits, milli)
			u := Adjust(put.Target(), costs)
			if !plain {
				u = Charge{Image: decode(t, stored), Costs: costs, Now: sampleNow, Force: true}.Plan().Update
			}
			stored = applied(t, u, stored)
			decode(t, stored)
		}
		for range 10 {
			settle(sign*most, true)
		}
		b := decode(t, stored)
		t.Logf("after ten of %d: %s %v", sign*most, b.State, stored["b_rpm_tc"].(*types.AttributeValueMemberN).Value)
		plan := Charge{Image: b, Costs: Costs(limits, 10_000), Now: sampleNow + 1}.Plan()
		check.Equal(t, plan.Verdict.Granted, sign < 0, "after ten of %d: granted", sign*most)
		for range 10 {
			settle(-sign*most, true)
		}
		for range 10 {
			settle(most, false) // in the other order the capacity cuts the give-back
			settle(-most, false)
		}
		burst := int64(0)
		for ; burst < 100; burst++ {
			one := Costs(limits, 1_000)
			plan := Charge{Image: decode(t, stored), Costs: one, Now: sampleNow + 60_000}.Plan()
			if !plan.Verdict.Granted {
				break
			}
			stored = applied(t, plan.Update, stored)
		}
		check.Equal(t, burst, 10, "granted at once when the sum is zero")
	}
}
