package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// feed makes stream records from real items, and delivers them to the built aggregator.
type feed struct {
	fleet
	host *runtimeapi.Host
	seq  int64
}

// record returns the record of a write, created at the world's clock.
func (f *feed) record(before, after item.Item) streamtest.Record {
	f.seq++
	return streamtest.Record{
		Sequence: strconv.FormatInt(100_000_000_000_000_000+f.seq, 10) + "0000",
		Created:  f.w.clock.Load(), Old: before, New: after,
	}
}

// deliver measures one invocation.
func (f *feed) deliver(ctx context.Context, records []streamtest.Record) (Bill, error) {
	return f.w.billed(1, func(int) error { return invoke(ctx, f.host, streamtest.Payload(records...)) })
}

// functions measures the built aggregator's writes for a batch.
func (f fleet) functions(ctx context.Context) ([]Row, error) {
	// The aggregator reads the machine's clock.
	f.w.clock.Store(time.Now().UnixMilli())
	host, err := f.w.aggregator(ctx)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	feed := &feed{fleet: f, host: host}

	summed := map[string]float64{"UpdateItem": 2, "BatchGetItem": 1, "Query": 1}
	first := Row{Path: "aggregator, first hour and sum of its day", Budget: Bill{Calls: summed, Read: 1.5, Write: 6},
		AtMost: true, Note: "once per window; the items enter their indexes GSI2 and GSI4; some engines read for nothing " +
			"what is not there, AWS does not; in the last minute of an hour one Query more"}
	later := Row{Path: "aggregator, hour and sum of its day", Budget: Bill{Calls: summed, Read: 1.5, Write: 2},
		Note: "not folded; the day is read before, and its hours consistently, up to 4 KB of them here"}
	refill := Row{Path: "aggregator, refill, per bucket", Budget: updates(1)}

	var bills [3]Bill
	for round, requests := range []int64{1, 2, 900} {
		batch, err := feed.acquire(ctx, "feed", entities, 1, requests)
		if err != nil {
			return nil, err
		}
		if round == 2 { // time until a refill is due
			time.Sleep(200 * time.Millisecond)
		}
		if bills[round], err = feed.deliver(ctx, batch); err != nil {
			return nil, err
		}
	}
	first.Measured = bills[0].minus(Bill{}, entities)
	later.Measured = bills[1].minus(Bill{}, entities)
	refill.Measured = bills[2].minus(bills[1], entities)
	folded, err := feed.folded(ctx)
	if err != nil {
		return nil, err
	}
	split, err := feed.split(ctx)
	if err != nil {
		return nil, err
	}
	lagging, err := f.lagging(ctx, split)
	if err != nil {
		return nil, err
	}
	merge, look, err := feed.merge(ctx)
	return []Row{later, first, folded, refill, split, lagging, merge, cycle(split, merge, look)}, err
}

// acquire takes requests from each of some buckets, a number of times, and returns the records.
func (f *feed) acquire(
	ctx context.Context, prefix string, buckets, times int, requests int64,
) (out []streamtest.Record, err error) {
	for i := range buckets * times {
		entity := fmt.Sprintf("%s-%d", prefix, i%buckets)
		before, _ := f.w.item(ctx, entity, 0) // nil at first
		if err := takes(f.a, requests)(ctx, entity); err != nil {
			return nil, err
		}
		after, err := f.w.item(ctx, entity, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, f.record(before, after))
	}
	return out, nil
}

// split delivers one acquire of a bucket whose write meter it has exhausted.
func (f *feed) split(ctx context.Context) (Row, error) {
	row := Row{
		Path:   "aggregator, split of a shard",
		Budget: Bill{Calls: map[string]float64{"TransactWriteItems": 1}, Write: 2*2 + 3},
		Note: "one call per shard step; its two items are written in a transaction at twice the price, and the new one " +
			"enters GSI2, GSI3 and GSI4",
	}
	row.local(f.w, 0, 3, "doubles the part of the indexes too, AWS does not")
	b := clients.Full(f.w.ns, "hot", resource, []limiter.Limit{limiter.PerMinute("rpm", 1000)}, 0, time.Now().UnixMilli())
	before := b.Item()
	for i, sl := range b.State.Slots {
		if sl.Name == bucket.WCU {
			b.State.Slots[i].Tokens = 0
		} else {
			b.State.Slots[i].Tokens -= bucket.Milli
			b.State.Slots[i].Used += bucket.Milli
		}
	}
	if _, err := f.w.store.Write(ctx, item.Put{Item: b.Item()}); err != nil {
		return row, err
	}
	f.w.clock.Store(b.State.RF)
	usage, err := f.w.metered(1, func(int) error {
		return invoke(ctx, f.host, streamtest.Payload(f.record(before, b.Item())))
	})
	row.Measured = only(usage, "TransactWriteItems")
	return row, err
}

// merge delivers a write of the bucket that split has left with two shards, after it has been cool
// for the aggregator's configured time. look is the bill of the look before the merge.
func (f *feed) merge(ctx context.Context) (row Row, look Bill, err error) {
	row = Row{
		Path:   "aggregator, merge of two shards",
		Budget: Bill{Calls: map[string]float64{"TransactWriteItems": 1}, Write: 2*2 + 3},
		Note: "the way back: one of the two items is removed, and leaves GSI2, GSI3 and GSI4; one image of the other " +
			"is asked for before, by an UpdateItem of 1 unit",
	}
	row.local(f.w, 0, 3, "doubles the part of the indexes too, AWS does not")
	it, err := f.w.item(ctx, "hot", 0)
	if err != nil {
		return row, look, err
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		return row, look, err
	}
	if b.State.Shards != 2 {
		return row, look, fmt.Errorf("the hot bucket has %d shards, want 2", b.State.Shards)
	}
	split := time.UnixMilli(table.Began(b.Generation))
	time.Sleep(time.Until(split.Add(2 * time.Second))) // records are dated to the second
	f.w.clock.Store(time.Now().UnixMilli())
	usage, err := f.w.metered(1, func(int) error {
		return invoke(ctx, f.host, streamtest.Payload(f.record(it, it)))
	})
	row.Measured, look = only(usage, "TransactWriteItems"), only(usage, "UpdateItem")
	return row, look, err
}
