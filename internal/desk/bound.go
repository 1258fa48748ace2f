package desk

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// outliving returns a bound that ends at the same instant, and not with the caller's context. If
// both end at one instant, the caller leaves first.
func (b *Bound) outliving() Bound {
	until := b.until
	if d, ok := b.caller.Deadline(); ok && d.Equal(until) {
		until = until.Add(1)
	}
	return Bound{caller: b.caller, until: until, outlives: true}
}

// Bound is the context of one call, which ends with the caller's context or at an instant. It
// starts nothing to wait for that until somebody asks: a denial without a call to DynamoDB needs no
// timer.
type Bound struct {
	caller context.Context
	until  time.Time
	// outlives: it has the values of the caller's context, and does not end with that.
	outlives bool
	once     sync.Once
	begun    atomic.Bool // somebody has asked for more than the deadline and Err: ctx and cancel are there
	ctx      context.Context
	cancel   context.CancelFunc
}

func (b *Bound) started() context.Context {
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

// End frees the resources of the bound. It is called once, when the call is over; the values of the
// caller's context are still available then.
func (b *Bound) End() {
	b.once.Do(func() {
		b.ctx = b.caller
		b.begun.Store(true)
	})
	if b.cancel != nil {
		b.cancel()
	}
}

// Deadline implements [context.Context].
func (b *Bound) Deadline() (time.Time, bool) {
	if d, ok := b.caller.Deadline(); ok && d.Before(b.until) && !b.outlives {
		return d, true
	}
	return b.until, true
}

// Done implements [context.Context].
func (b *Bound) Done() <-chan struct{} { return b.started().Done() }

// Err implements [context.Context]. It starts no timer before the bound: most calls ask only for
// this, before they are sent.
func (b *Bound) Err() error {
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
func (b *Bound) Value(key any) any {
	if v := b.started().Value(key); v != nil || !b.outlives {
		return v
	}
	return b.caller.Value(key)
}

// Guarded calls f, and turns a panic of the caller's DynamoDB client into an error: a failure at
// one level must not keep the others from being given back.
func Guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return f()
}

// InParallel calls f for 0 to n-1 concurrently, waits for all, and returns their errors, see
// [Guarded].
func InParallel(n int, f func(i int) error) []error {
	errs := make([]error, n)
	guarded := func(i int) { errs[i] = Guarded(func() error { return f(i) }) }
	var all sync.WaitGroup
	for i := 1; i < n; i++ {
		all.Go(func() { guarded(i) })
	}
	if n > 0 {
		guarded(0)
	}
	all.Wait()
	return errs
}

// troubles calls f for buckets concurrently, waits for all, and returns the failures, see
// [Guarded].
func troubles(op string, buckets []decide.Name, f func(i int) []error) (failed []Trouble) {
	came := make([][]error, len(buckets))
	for i, panicked := range InParallel(len(buckets), func(i int) error { came[i] = f(i); return nil }) {
		if panicked != nil {
			came[i] = []error{panicked}
		}
		if len(came[i]) > 0 {
			failed = append(failed, Trouble{op, buckets[i], came[i]})
		}
	}
	return failed
}

// left is the error of a caller whose context has ended.
func left(ctx context.Context, kind store.Kind) error {
	return &store.Failure{Kind: kind, Op: "UpdateItem", Err: ctx.Err()}
}
