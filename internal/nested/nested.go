// Package nested knows the limiters that one request passes, one within the other: each holds its
// lease while the next decides. Where an inner one denies, nothing is done for the request, so the
// outer ones give back what they took. Packages httplimit and grpclimit share it.
package nested

import (
	"context"
	"sync/atomic"
)

// Lease is what a limiter has granted; *limiter.Lease is one.
type Lease interface {
	Commit(context.Context) error
	Rollback(context.Context) error
}

// Step is a limiter that has granted a request, until its handler is done.
type Step struct {
	lease          Lease
	outer          *Step       // nil: none
	denied, served atomic.Bool // by limiters within: one has denied, one has let something be done
}

type key struct{}

// Enter returns the context in which the handler of a granted request works, and the step to end when
// it is done.
func Enter(ctx context.Context, lease Lease) (context.Context, *Step) {
	s := &Step{lease: lease, outer: of(ctx)}
	return context.WithValue(ctx, key{}, s), s
}

func of(ctx context.Context) *Step {
	s, _ := ctx.Value(key{}).(*Step)
	return s
}

// Innermost returns the lease of the last limiter that a request has passed, nil for none.
func Innermost(ctx context.Context) Lease {
	if s := of(ctx); s != nil {
		return s.lease
	}
	return nil
}

// Denied notes that a limiter denies a request that has this context.
func Denied(ctx context.Context) {
	if s := of(ctx); s != nil {
		s.denied.Store(true)
	}
}

// End commits the lease, also when the client has gone away. It rolls the lease back where limiters
// within have denied all that they were asked for.
func (s *Step) End(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if s.denied.Load() && !s.served.Load() {
		if s.outer != nil {
			s.outer.denied.Store(true)
		}
		return s.lease.Rollback(ctx)
	}
	if s.outer != nil {
		s.outer.served.Store(true)
	}
	return s.lease.Commit(ctx)
}
