package fleet

import (
	"context"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Split plays the case with limiters on a bucket of so many shards. It has to be called
// inside a bubble of testing/synctest.
func (c Case) Split(ctx context.Context, shards int) (Result, error) {
	c.Options.MaxShards = shards
	t := newTable(c)
	processes := make([]process, c.Processes)
	for i := range processes {
		l, err := t.process(ctx, c.Options)
		if err != nil {
			return Result{}, err
		}
		processes[i] = func(ctx context.Context, tokens []int64) error {
			_, err := l.Acquire(ctx, c.Bucket.request(tokens))
			return err
		}
		if i > 0 {
			continue
		}
		if err := t.begin(ctx, l, c.Bucket, shards); err != nil {
			return Result{}, err
		}
	}
	return c.arrive(ctx, processes, t), nil
}

// begin creates the bucket and splits it.
func (t *tableStore) begin(ctx context.Context, l *limiter.Limiter, b Bucket, shards int) error {
	if _, err := l.Acquire(ctx, b.request(make([]int64, len(b.Limits)))); err != nil {
		return err
	}
	return t.divide(ctx, l.NamespaceID(), shards)
}
