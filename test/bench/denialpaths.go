package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

func (f fleet) denial(ctx context.Context) (r Row, err error) {
	r = Row{Path: "denial, first", Budget: updates(1), Note: "a failed condition"}
	r.Measured, err = f.path(ctx, "denial", 0, f.stale,
		func(ctx context.Context, e string) error { return denied(ctx, f.b, e, 400) })
	return r, err
}

func (f fleet) flood(ctx context.Context) (r Row, err error) {
	r = Row{Path: "denial, repeated"}
	r.Measured, err = f.w.billed(warmRuns, func(int) error { return denied(ctx, f.b, "denial-0", 400) })
	return r, err
}

// denialCounted is an acquire that writes the count of a denial before it.
func (f fleet) denialCounted(ctx context.Context) (r Row, err error) {
	r = Row{Path: "acquire that counts a denial before", Budget: updates(1)}
	r.Measured, err = f.path(ctx, "counts", 6*time.Second,
		func(ctx context.Context, e string) error {
			return errors.Join(taken(ctx, f.a, e, 1000), denied(ctx, f.a, e, 1))
		},
		func(ctx context.Context, e string) error { return taken(ctx, f.a, e, 50) })
	if err != nil {
		return r, err
	}
	if b, err := f.stored(ctx, "counts-0"); err != nil || b.Denied != bucket.Milli {
		return r, fmt.Errorf("the acquire counts %d thousandths of a denial (%w)", b.Denied, err)
	}
	return r, nil
}
