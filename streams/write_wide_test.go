package streams

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// wide stores another client's bucket with any number of limits, nearly drained: it needs a refill,
// and if hot a split.
func (r *rig) wide(limits int, hot bool) table.Shard {
	var all []bucket.Limit
	for i := range limits {
		all = append(all, bucket.Limit{Name: fmt.Sprintf("limit%03d", i), Capacity: 600_000, Amount: 600_000,
			Period: 60_000})
	}
	b := table.Shard{Namespace: "ns", Entity: "wide", Resource: "gpt", State: bucket.New(all, 0, 1, r.now)}
	r.db.Store(b.Item())
	costs := make([]int64, len(b.State.Slots))
	for i := range costs {
		costs[i] = 590_000
	}
	if hot {
		costs[b.State.Index(bucket.WCU)] = 1_000_000
	}
	b.State = b.State.Take(costs)
	r.db.Store(b.Item())
	r.now += 30_000
	return b
}

// DynamoDB refuses every update of a bucket with more limits than one condition can name. Its usage
// is still counted. It does not block later records, and they are not given up.
func TestBucketsTooWideToWriteDoNotBlockTheStream(t *testing.T) {
	for _, limits := range []int{32, 60, 256 - 1} {
		for _, hot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d limits hot %v", limits, hot), func(t *testing.T) {
				r := newRig(t)
				r.wide(limits, hot)
				r.take("a", 0, 1, 1)
				r.db.SetHook(func(op memdynamo.Op) (bool, error) {
					for _, w := range op.Writes {
						if item.Validate(w) != nil {
							return false, memdynamo.Fail(store.Setup)
						}
					}
					return true, nil
				})
				check.Equal(t, r.handle(streamtest.PayloadOf(records(r.since(0))...)), done, "response")
				s, err := ledger.DecodeSnapshot(r.db.Item(layout.UsageKey("ns", "wide", "gpt", "2023-11-14")))
				check.Must(t, err)
				for i := range limits {
					name := fmt.Sprintf("limit%03d", i)
					check.MustEqual(t, s.Counts[name], 590, "%s counted", name)
				}
			})
		}
	}
}
