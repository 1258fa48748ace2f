package limiter

import (
	"context"
	"errors"
)

// Do acquires, runs fn with the lease, and commits the lease. When fn returns an error while ctx
// goes on, it rolls back: everything taken is given back, unless fn has settled (see [Lease.Settle]).
// What the caller can cause gives nothing back: when fn panics, or ctx has ended, Do commits.
// Neither is cut short when ctx is done; both are bounded by Options.Timeout.
//
// The error is Acquire's if fn did not run, else fn's own, joined with a
// *SettleError if the lease could not be committed or given back. fn may end the lease
// itself. It must not use the lease after it has returned.
func (l *Limiter) Do(ctx context.Context, req Request, fn func(context.Context, *Lease) error) error {
	lease, err := l.Acquire(ctx, req)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked or called runtime.Goexit, which passes on
			_ = lease.Commit(context.WithoutCancel(ctx))
		}
	}()
	within, cancel := lease.Within(ctx)
	defer cancel()
	err = fn(within, lease)
	returned = true
	end := lease.Commit
	if err != nil && ctx.Err() == nil {
		end = lease.Rollback
	}
	failed := end(context.WithoutCancel(ctx))
	if failed == nil || errors.Is(failed, ErrLeaseClosed) { // fn has ended it
		return err
	}
	return errors.Join(err, failed)
}
