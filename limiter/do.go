package limiter

import (
	"context"
	"errors"
	"fmt"
)

// Do acquires, runs fn with the lease, and commits what fn adjusted; when fn
// fails or panics, everything taken is given back instead. Neither the commit
// nor the rollback is cut short when ctx is done, so a request whose caller has
// gone is still settled; both are bounded by Options.Timeout.
//
// The error is that of Acquire if fn did not run, else fn's own, joined with
// that of the rollback or commit if those failed. fn must not commit or roll
// back the lease itself, and must not keep it.
func (l *Limiter) Do(ctx context.Context, req Request, fn func(context.Context, *Lease) error) (err error) {
	lease, err := l.Acquire(ctx, req)
	if err != nil {
		return err
	}
	settled := false
	defer func() {
		if settled {
			return
		}
		// fn panicked or called runtime.Goexit: give back, let it pass on.
		_ = lease.Rollback(ctx)
	}()
	ferr := fn(ctx, lease)
	settled = true
	if ferr != nil {
		if rerr := lease.Rollback(ctx); rerr != nil {
			return errors.Join(ferr, fmt.Errorf("give back after that: %w", rerr))
		}
		return ferr
	}
	return lease.Commit(context.WithoutCancel(ctx))
}
