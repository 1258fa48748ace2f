package bench

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// halves leaves a bucket of two shards, with an image of each in the client.
func (f fleet) halves() act { return then(takes(f.a, 1), f.double, takes(f.a, 600)) }

// double doubles the shards of a bucket, as its shard 0 does first.
func (f fleet) double(ctx context.Context, entity string) error {
	b, err := f.stored(ctx, entity, 0)
	if err == nil {
		_, err = shard.Run(ctx, f.w.store, shard.Double(b), f.w.clock.Load)
	}
	return err
}

// lagging splits a shard that is behind the count of shard 0, from a newer image than shard 0's.
// Both a client that writes to it and the aggregator do this.
func (f fleet) lagging(ctx context.Context, split Row) (Row, error) {
	row := Row{
		Path:   "split of a shard that lags behind",
		Budget: Bill{Calls: map[string]float64{"TransactWriteItems": 1}, Write: split.Budget.Write + 2},
		Note:   "as a split, and a check in the transaction that shard 0 still has the count, two units",
	}
	row.local(f.w, 0, -2, "does not count checks, AWS does")
	// To two shards and beyond: the second one is left behind.
	if err := then(takes(f.a, 1), f.double, f.double)(ctx, "lagging"); err != nil {
		return row, err
	}
	b, err := f.stored(ctx, "lagging", 1)
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

// cycle returns the bill of a split and of the merge that reverses it, including the look at the
// other shard before the merge.
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
