package streams

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// wide stores a bucket of another client, which has no bound on the number of
// limits, and nearly drains it: a refill is called for, and if hot a split.
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

// A bucket with more limits than one update can condition on is refused by
// DynamoDB every time. Its usage is counted all the same, and it neither holds
// up the records behind it nor has them given up with it.
func TestBucketTooWideToBeWrittenHoldsNothingUp(t *testing.T) {
	for _, limits := range []int{32, 60, 256 - 1} {
		for _, hot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d limits hot %v", limits, hot), func(t *testing.T) {
				r := newRig(t)
				r.wide(limits, hot)
				r.take("a", 0, 1, 1)
				r.db.SetHook(func(op memdynamo.Op) (bool, error) {
					check.NoError(t, checked(op.Writes...), "sent")
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

// What DynamoDB calls invalid is given up if nobody is owed it. Usage is owed:
// its record is reported, whatever the reason.
func TestInvalidWrites(t *testing.T) {
	invalid := &store.Failure{Kind: store.Unavailable, Op: "UpdateItem",
		Err: &smithy.GenericAPIError{Code: "ValidationException"}}
	code := "ValidationError"
	inTransaction := &store.Failure{Kind: store.Unavailable, Op: "TransactWriteItems",
		Err: &types.TransactionCanceledException{
			CancellationReasons: []types.CancellationReason{{}, {Code: &code}},
		}}
	denied := &store.Failure{Kind: store.Unavailable, Op: "UpdateItem",
		Err: &smithy.GenericAPIError{Code: "AccessDeniedException"}}
	for _, c := range []struct {
		name string
		pk   string
		hot  bool
		err  error
		done bool
	}{
		{"refill", "ns/BUCKET#", false, invalid, true},
		{"split", "ns/BUCKET#", true, inTransaction, true},
		{"refill not allowed", "ns/BUCKET#", false, denied, true},
		{"split not allowed", "ns/BUCKET#", true, denied, true},
		{"usage", "ns/ENTITY#", false, invalid, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.wide(2, c.hot)
			changes := r.since(0)
			hit := false
			r.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if len(op.Writes) > 0 && strings.HasPrefix(op.Writes[0].Target().PK, c.pk) {
					hit = true
					return false, c.err
				}
				return true, nil
			})
			got := r.handle(streamtest.PayloadOf(records(changes)...))
			if !hit || (got == done) != c.done {
				t.Errorf("response %s, write seen: %v", got, hit)
			}
			if !strings.Contains(r.metrics.String(), `"WritesFailed":1`) && c.name != "usage" {
				t.Errorf("metrics %s", r.metrics.String())
			}
		})
	}
}
