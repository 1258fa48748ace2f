package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

// ofABucket is how many acquires of a bucket one fold has.
const ofABucket = 20

// folded measures the cost of usage per acquire within a tumbling window, in an hour for which each
// bucket already has a snapshot.
func (f *feed) folded(ctx context.Context) (Row, error) {
	const acquires = entities * ofABucket
	row := Row{
		Path: "usage, per acquire",
		Budget: Bill{
			Calls: map[string]float64{"UpdateItem": 1. / ofABucket, "PutItem": 1. / acquires,
				"BatchGetItem": 1. / acquires},
			Read: 0.5 / acquires, Write: 1./ofABucket + 1./acquires,
		},
		Note: fmt.Sprintf("%d of each of %d buckets in a fold: a write for each bucket; for all of them one of what days "+
			"and months owe, and a read whether that is due. make prices has the whole of it, for up to 100,000 tenants",
			ofABucket, entities),
	}
	for _, each := range []int{1, ofABucket} { // the first is not measured
		records, err := f.acquire(ctx, "fold", entities, each, 1)
		if err != nil {
			return row, err
		}
		bill, err := f.w.billed(1, func(int) error { return f.tumble(ctx, records) })
		if err != nil {
			return row, err
		}
		row.Measured = bill.minus(Bill{}, acquires)
	}
	return row, nil
}

// tumble delivers the records and ends the window.
func (f *feed) tumble(ctx context.Context, records []streamtest.Record) error {
	state := json.RawMessage("{}")
	begin := f.w.clock.Load() / 60_000 * 60_000
	for _, final := range []bool{false, true} {
		if final {
			records = nil
		}
		event := fmt.Appendf(nil, `{"window":{"start":%q,"end":%q},"state":%s,"shardId":"s","isFinalInvokeForWindow":%t,%s`,
			layout.Timestamp(begin), layout.Timestamp(begin+time.Minute.Milliseconds()), state, final,
			streamtest.Payload(records...)[1:])
		r, err := f.host.Invoke(ctx, event)
		if err != nil {
			return err
		}
		var answer struct {
			BatchItemFailures []any
			State             json.RawMessage
		}
		if json.Unmarshal(r.Payload, &answer) != nil || answer.State == nil || len(answer.BatchItemFailures) > 0 {
			return fmt.Errorf("aggregator: %s %s\n%s", r.FunctionError, r.Payload, f.host.Logs())
		}
		state = answer.State
	}
	return nil
}
