package table_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// However much is settled and given back, the item is read, and the bucket works
// again when it is even.
func TestSettlementsBeyond64BitsLeaveABucketThatWorks(t *testing.T) {
	const now = 1_700_000_000_000
	const most = 1_000_000_000_000_000_000 // the most tokens that a call may name, in millitokens
	limits := []bucket.Limit{{Name: "rpm", Capacity: 10_000, Amount: 10_000, Period: 60_000}}
	for _, sign := range []int64{1, -1} {
		put, _ := create(now, table.Costs(limits))
		stored := put.Item
		settle := func(milli int64, plain bool) {
			t.Helper()
			costs := table.Costs(limits, milli)
			u := table.Adjust(put.Target(), costs)
			if !plain {
				u = table.Charge{Image: decode(t, stored), Costs: costs, Now: now,
					Force: true}.Plan().Update
			}
			after := applied(t, u, stored)
			stored = after
			decode(t, stored)
		}
		for range 10 {
			settle(sign*most, true)
		}
		b := decode(t, stored)
		t.Logf("after ten of %d: %s %v", sign*most, b.State, stored["b_rpm_tc"].(*types.AttributeValueMemberN).Value)
		plan := table.Charge{Image: b, Costs: table.Costs(limits, 10_000),
			Now: now + 1}.Plan()
		check.Equal(t, plan.Verdict.Granted, sign < 0, "after ten of %d: granted", sign*most)
		for range 10 {
			settle(-sign*most, true)
		}
		for range 10 {
			settle(most, false) // the other way round the capacity cuts what is given back
			settle(-most, false)
		}
		burst := int64(0)
		for ; burst < 100; burst++ {
			one := table.Costs(limits, 1_000)
			plan := table.Charge{Image: decode(t, stored), Costs: one, Now: now + 60_000}.Plan()
			if !plan.Verdict.Granted {
				break
			}
			stored = applied(t, plan.Update, stored)
		}
		check.Equal(t, burst, 10, "granted at once when all is even")
	}
}
