package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// met is the first request of a process for buckets that others have used, limits in cache.
func (f fleet) met(ctx context.Context) (Row, error) {
	return f.touched(ctx, Row{
		Path:   "acquire, bucket not met, limits in code",
		Budget: Bill{Calls: map[string]float64{"UpdateItem": 1, "BatchGetItem": 1}, Read: 3, Write: 1},
		Note:   "the bucket is read with what else is stored of the entity; then one charge",
	}, []limiter.Limit{limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 100_000)})
}

// first is met, with the limits read too.
func (f fleet) first(ctx context.Context) (Row, error) {
	return f.touched(ctx, Row{
		Path:   "acquire, bucket not met, limits stored",
		Budget: Bill{Calls: map[string]float64{"UpdateItem": 1, "BatchGetItem": 1}, Read: 3, Write: 1},
		Note:   "half a read unit for each of five records, and for the bucket, in one call; then one charge",
	}, nil)
}

// touched bills the first request of a new process for each of some buckets that are full.
func (f fleet) touched(ctx context.Context, r Row, own []limiter.Limit) (_ Row, err error) {
	r.AtMost = true
	prefix := fmt.Sprint("met", len(own))
	r.Measured, err = f.path(ctx, prefix, time.Hour,
		func(ctx context.Context, e string) error { return taken(ctx, f.a, e, 1) },
		func(ctx context.Context, e string) error {
			_, err := f.b.Acquire(ctx, limiter.Request{Entity: e, Resource: resource, Limits: own,
				Costs: limiter.Costs{"rpm": 1, "tpm": 100}})
			return err
		})
	return r, err
}
