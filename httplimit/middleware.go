package httplimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/zeroae/zae-limiter-go/internal/nested"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Acquirer takes tokens; *limiter.Limiter is one.
type Acquirer interface {
	Acquire(context.Context, limiter.Request) (*limiter.Lease, error)
}

// Options say what a request takes and what becomes of it. Request is required.
type Options struct {
	// Request returns what a request takes: who, what, how much. An error that is
	// an [*Error] is answered with its status, any other with 500, and goes to
	// Failed; nothing is taken.
	Request func(*http.Request) (limiter.Request, error)
	// Skip tells which requests are not limited, health checks or preflights ([IsPreflight]) for
	// instance; they carry no lease. Nil: none.
	Skip func(*http.Request) bool
	// Fields are the header fields that tell of the limits. Nil: [RateLimit];
	// empty: none. Requests that have an Origin get Access-Control-Expose-Headers too, with the names
	// of these fields and Retry-After.
	Fields []Fields
	// Denied answers a denied request. The header fields are set already, the
	// status is not. Nil: [WriteDenied].
	Denied func(http.ResponseWriter, *http.Request, Denial)
	// Failed answers a request for which there was no decision. Nil: [WriteFailed].
	Failed func(http.ResponseWriter, *http.Request, error)
	// Granted is told of every granted request before it is handled, for logs and
	// metrics. It must be quick. Nil: nobody.
	Granted func(*http.Request, *limiter.Lease)
	// Settled is told of every lease that could not be settled after its request
	// was handled: the tokens that were taken at first stay taken. Nil: nobody.
	Settled func(*http.Request, error)
}

// Error is an error of [Options.Request] with the status that answers it, 401 say.
type Error struct {
	Status int // 400 to 599
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns a middleware that takes tokens before it hands a request on. When the handler is
// done it commits the lease, with what the handler settled ([Lease]): also when the client has gone
// away, and when the handler panics. So nothing that a client can cause gives anything back. A
// handler that has done nothing for its request, because what it asks has failed by itself, may
// roll the lease back. Under limiter.PolicyAllow a request without a decision is handed on too; its
// lease has charged nothing.
//
// A request may pass several, one within the other. Where an inner one denies it, the outer ones
// give back what they took, unless something was settled. [Options.Fields] cover all of them.
//
// New panics if there is no limiter or no Options.Request.
func New(l Acquirer, o Options) func(http.Handler) http.Handler {
	if l == nil || o.Request == nil {
		panic("bug: httplimit.New needs a limiter and Options.Request")
	}
	if o.Fields == nil {
		o.Fields = []Fields{RateLimit}
	}
	if o.Denied == nil {
		o.Denied = WriteDenied
	}
	if o.Failed == nil {
		o.Failed = WriteFailed
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if o.Skip != nil && o.Skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			o.serve(l, next, w, r)
		})
	}
}

func (o Options) serve(l Acquirer, next http.Handler, w http.ResponseWriter, r *http.Request) {
	req, err := o.Request(r)
	if err != nil {
		o.Failed(w, r, err)
		return
	}
	lease, err := l.Acquire(r.Context(), req)
	if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
		expose(w.Header(), r, func() { retryAfter(w.Header(), denied) })
		o.set(w, r, denied.Statuses)
		nested.Denied(r.Context())
		o.Denied(w, r, Denial{denied, req})
		return
	}
	if err != nil {
		o.Failed(w, r, err)
		return
	}
	if o.Granted != nil {
		o.Granted(r, lease)
	}
	if lease.Charged() {
		r = o.set(w, r, lease.Status())
	}
	o.handle(next, w, r, lease)
}

// handle runs the handler and settles the lease, whatever becomes of the client.
func (o Options) handle(next http.Handler, w http.ResponseWriter, r *http.Request, lease *limiter.Lease) {
	ctx, step := nested.Enter(r.Context(), lease)
	ctx, cancel := lease.Within(ctx)
	defer cancel()
	defer func() { // also after a panic
		if err := step.End(ctx); err != nil && !errors.Is(err, limiter.ErrLeaseClosed) && o.Settled != nil {
			o.Settled(r, err)
		}
	}()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// Lease returns the lease of a request that is being handled, nil if it is not
// limited; of several middlewares that of the innermost. The handler may settle and charge; it may
// also roll back or commit itself, when that must have happened before the answer is sent.
func Lease(r *http.Request) *limiter.Lease {
	lease, _ := nested.Innermost(r.Context()).(*limiter.Lease)
	return lease
}
