package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/zeroae/zae-limiter-go/internal/nested"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Acquirer takes tokens; *limiter.Limiter is one.
type Acquirer interface {
	Acquire(context.Context, limiter.Request) (*limiter.Lease, error)
}

// Call describes a call before it is handled.
type Call struct {
	Method  string // "/package.service/method"
	Message any    // of a unary call the request; nil for a stream
	Server  any    // the implementation of the service
}

// Options set the costs of a call and its answer. Request is required.
type Options struct {
	// Request returns the entity, the resource and the costs of a call. Its error ends the call and
	// nothing is taken: a status goes to the client as it is, any other error goes to Failed.
	Request func(context.Context, Call) (limiter.Request, error)
	// Skip reports whether a call is not limited, such as a health check; it carries no lease. Nil:
	// none.
	Skip func(context.Context, Call) bool
	// Denied returns the error of a denied call. Nil: [Denied].
	Denied func(context.Context, Call, *limiter.LimitError) error
	// Failed returns the error of a call for which there was no decision. Nil: [Failed].
	Failed func(context.Context, Call, error) error
	// Granted is called for every granted call before it is handled, for logs and metrics. It must
	// be quick. Nil: no calls.
	Granted func(context.Context, Call, *limiter.Lease)
	// Settled is called for every lease that could not be settled after its call was handled: the
	// tokens first taken stay taken. Nil: no calls.
	Settled func(context.Context, Call, error)
}

// Unary returns an interceptor that takes tokens before it hands a call on. When the handler is
// done it commits the lease, with the costs that the handler settled ([Lease]), even after an error
// or a panic, and if the client has gone away. So a client cannot cause a refund. A handler whose
// call failed before any work may roll the lease back. With an in-flight limit the context of the
// call ends when its slot is lost, with the cause limiter.ErrSlotsLost. Under limiter.PolicyAllow a
// call without a decision is handed on too; its lease has charged nothing.
//
// Interceptors may be nested. If an inner one denies a call, the outer ones give their tokens back,
// unless something was settled.
//
// Unary panics if there is no limiter or no [Options.Request].
func Unary(l Acquirer, o Options) grpc.UnaryServerInterceptor {
	o.check(l)
	return func(ctx context.Context, msg any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		var out any
		err := o.limit(ctx, l, Call{Method: info.FullMethod, Message: msg, Server: info.Server},
			func(ctx context.Context) (err error) {
				out, err = handle(ctx, msg)
				return err
			})
		return out, err
	}
}

// Stream is [Unary] for streams: tokens are taken once, before the handler is called, and the lease
// is committed after it has returned. The handler charges (Charge of the lease) or settles the cost
// of the stream's messages.
func Stream(l Acquirer, o Options) grpc.StreamServerInterceptor {
	o.check(l)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return o.limit(ss.Context(), l, Call{Method: info.FullMethod, Server: srv}, func(ctx context.Context) error {
			return handle(srv, stream{ss, ctx})
		})
	}
}

// stream is a stream with the lease in its context.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context with the lease.
func (s stream) Context() context.Context { return s.ctx }

func (o *Options) check(l Acquirer) {
	if own, ok := l.(*limiter.Limiter); l == nil || ok && own == nil || o.Request == nil {
		panic("bug: grpclimit needs a limiter and Options.Request")
	}
	if o.Denied == nil {
		o.Denied = func(_ context.Context, _ Call, e *limiter.LimitError) error { return Denied(e) }
	}
	if o.Failed == nil {
		o.Failed = func(ctx context.Context, _ Call, err error) error { return Failed(ctx, err) }
	}
}

func (o *Options) limit(ctx context.Context, l Acquirer, c Call, handle func(context.Context) error) error {
	if o.Skip != nil && o.Skip(ctx, c) {
		return handle(ctx)
	}
	req, err := o.Request(ctx, c)
	if err != nil {
		if isStatus(err) {
			return err
		}
		return o.Failed(ctx, c, err)
	}
	lease, err := l.Acquire(ctx, req)
	if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
		nested.Denied(ctx)
		return o.Denied(ctx, c, denied)
	}
	if err != nil {
		return o.Failed(ctx, c, err)
	}
	ctx, step := nested.Enter(ctx, lease)
	ctx, cancel := lease.Within(ctx)
	defer cancel()
	defer func() { // also after a panic
		if err := step.End(ctx); err != nil && !errors.Is(err, limiter.ErrLeaseClosed) && o.Settled != nil {
			o.Settled(ctx, c, err)
		}
	}()
	if o.Granted != nil {
		o.Granted(ctx, c, lease)
	}
	return handle(ctx)
}

// Lease returns the lease of a call that is being handled, nil if it is not limited; with several
// interceptors, the innermost one's. The handler may settle and charge; it may also roll back or
// commit itself, if that must happen before the answer is sent.
func Lease(ctx context.Context) *limiter.Lease {
	lease, _ := nested.Innermost(ctx).(*limiter.Lease)
	return lease
}
