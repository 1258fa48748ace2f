package limiter

import (
	"context"
	"errors"
)

// Do acquires, runs fn with the lease, and commits what fn settled. When fn fails
// or panics, everything taken is given back instead, unless fn has kept or settled
// the lease (see [Lease.Keep]). Neither is cut short when ctx is done, so a request
// whose caller has gone is still settled; both are bounded by Options.Timeout.
//
// The error is that of Acquire if fn did not run, else fn's own, joined with a
// *SettleError if the lease could not be committed or given back. fn may commit or
// roll back the lease itself. It must not use the lease after it has returned.
func (l *Limiter) Do(ctx context.Context, req Request, fn func(context.Context, *Lease) error) error {
	lease, err := l.Acquire(ctx, req)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked or called runtime.Goexit, which passes on
			_ = lease.Close(ctx)
		}
	}()
	err = fn(ctx, lease)
	returned = true
	if err == nil {
		lease.Keep()
	}
	if failed := lease.Close(ctx); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}
