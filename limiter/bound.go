package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// bounded returns ctx with the limiter's own bound.
func (l *Limiter) bounded(ctx context.Context) *bound {
	return &bound{caller: ctx, until: time.Now().Add(l.opts.Timeout)}
}

// within returns the bound that ctx is, or a new one.
func (l *Limiter) within(ctx context.Context) *bound {
	if b, ok := ctx.(*bound); ok {
		return b
	}
	return l.bounded(ctx)
}

// outliving returns a bound that ends at the same instant, and not when the caller's context does. Where
// that is one instant, the caller leaves first.
func (b *bound) outliving() bound {
	until := b.until
	if d, ok := b.caller.Deadline(); ok && d.Equal(until) {
		until = until.Add(1)
	}
	return bound{caller: b.caller, until: until, outlives: true}
}

// bound is the context of one call, which ends with the caller's or at an instant.
// Nothing waits for that until somebody asks for it: a denial without a call to
// DynamoDB needs no timer.
type bound struct {
	caller context.Context
	until  time.Time
	// outlives: it has the values of the caller's context, and does not end with that.
	outlives bool
	once     sync.Once
	begun    atomic.Bool // somebody has asked for more than the deadline and Err: ctx and cancel are there
	ctx      context.Context
	cancel   context.CancelFunc
}

func (b *bound) started() context.Context {
	b.once.Do(func() {
		parent := b.caller
		if b.outlives {
			parent = context.Background()
		}
		b.ctx, b.cancel = context.WithDeadline(parent, b.until)
		b.begun.Store(true)
	})
	return b.ctx
}

// end frees what the bound holds. It is called once, when the call is over;
// what the caller's context holds can still be asked for then.
func (b *bound) end() {
	b.once.Do(func() {
		b.ctx = b.caller
		b.begun.Store(true)
	})
	if b.cancel != nil {
		b.cancel()
	}
}

// Deadline implements [context.Context].
func (b *bound) Deadline() (time.Time, bool) {
	if d, ok := b.caller.Deadline(); ok && d.Before(b.until) && !b.outlives {
		return d, true
	}
	return b.until, true
}

// Done implements [context.Context].
func (b *bound) Done() <-chan struct{} { return b.started().Done() }

// Err implements [context.Context]. It starts no timer before the bound: most calls ask just this,
// before they are sent.
func (b *bound) Err() error {
	if b.begun.Load() {
		return b.ctx.Err()
	}
	if err := b.caller.Err(); err != nil && !b.outlives {
		return err
	}
	if time.Now().Before(b.until) {
		return nil
	}
	return b.started().Err()
}

// Value implements [context.Context].
func (b *bound) Value(key any) any {
	if v := b.started().Value(key); v != nil || !b.outlives {
		return v
	}
	return b.caller.Value(key)
}
