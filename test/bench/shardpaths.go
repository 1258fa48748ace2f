package bench

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// several is a request larger than the share of any shard, by a client that knows
// both shards of the bucket.
func (f fleet) several(ctx context.Context) (r Row, err error) {
	r = Row{
		Path: "acquire, taken from two shards",
		Budget: Bill{
			Calls: map[string]float64{"BatchGetItem": 1, "TransactWriteItems": 1}, Read: 2, Write: 2 * 2,
		},
		Note: "a consistent read unit for every shard of the bucket, and twice the price of a write for every one that pays",
	}
	if f.w.direct.Kind == engine.DynamoDBLocal {
		r.Budget.Write = 2
		r.Note += "; this engine does not double updates, AWS does"
	}
	r.Measured, err = f.path(ctx, "several", 35*time.Second, f.halves, func(ctx context.Context, e string) error {
		return taken(ctx, f.a, e, 600)
	})
	return r, err
}

// halves leaves a bucket of two shards, of which the client has an image each.
func (f fleet) halves(ctx context.Context, entity string) error {
	if err := taken(ctx, f.a, entity, 1); err != nil {
		return err
	}
	it, err := f.w.item(ctx, entity)
	if err != nil {
		return err
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		return err
	}
	if _, err = shard.Run(ctx, f.w.store, shard.Double(b), f.w.clock.Load); err != nil {
		return err
	}
	return taken(ctx, f.a, entity, 600)
}

// lagging splits a shard that is behind the count of shard 0, from a newer image than shard 0's. A
// client that writes to it does so, and the aggregator too.
func (f fleet) lagging(ctx context.Context, split Row) (Row, error) {
	row := Row{
		Path:   "split of a shard that lags behind",
		Budget: Bill{Calls: map[string]float64{"TransactWriteItems": 1}, Write: split.Budget.Write + 2},
		Note:   "as a split, and a check in the transaction that shard 0 still has the count, two units",
	}
	if f.w.direct.Kind == engine.DynamoDBLocal {
		row.Budget.Write -= 2
		row.Note += "; this engine does not count checks, AWS does"
	}
	if err := taken(ctx, f.a, "lagging", 1); err != nil {
		return row, err
	}
	for range 2 { // to two shards, and on: the second one is left behind
		it, err := f.w.item(ctx, "lagging")
		if err != nil {
			return row, err
		}
		zero, err := table.DecodeShard(it)
		if err != nil {
			return row, err
		}
		if _, err = shard.Run(ctx, f.w.store, shard.Double(zero), f.w.clock.Load); err != nil {
			return row, err
		}
	}
	items, err := f.w.store.Read(ctx, true, layout.BucketKey(f.w.ns, "lagging", resource, 1))
	if err != nil {
		return row, err
	}
	b, err := table.DecodeShard(items[0])
	if err != nil {
		return row, err
	}
	metered := store.NewDynamo(f.w.proxied.DynamoDB(), f.w.table)
	row.Measured, err = f.w.billed(1, func(int) error {
		_, err := shard.Run(ctx, metered, shard.Follow(b, 4), f.w.clock.Load)
		return err
	})
	return row, err
}

// cycle is the bill of a split and of the merge that undoes it, with the look at the
// other shard that precedes the merge.
func cycle(split, merge Row, look Bill) Row {
	row := Row{
		Path: "aggregator, a split and its merge",
		Budget: Bill{
			Calls: map[string]float64{"TransactWriteItems": 2, "UpdateItem": 1},
			Write: split.Budget.Write + merge.Budget.Write + 1,
		},
		Measured: Bill{Calls: map[string]float64{}},
		Note:     "both rows above, and a look at the other shard, an UpdateItem of 1 unit that fails",
	}
	for _, b := range []Bill{split.Measured, merge.Measured, look} {
		row.Measured.Read += b.Read
		row.Measured.Write += b.Write
		for op, n := range b.Calls {
			row.Measured.Calls[op] += n
		}
	}
	return row
}
