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

// Options set the costs of a request and its answer. Request is required.
type Options struct {
	// Request returns the entity, the resource and the costs of a request. A request that only asks
	// for its limits costs 0 of each: it gets the fields and takes nothing, for one write. If the
	// error is an [*Error], its status is the answer; any other error is 500, and goes to Failed.
	// Either way nothing is taken.
	Request func(*http.Request) (limiter.Request, error)
	// Skip reports whether a request is not limited, such as a health check or a preflight
	// ([IsPreflight]); it carries no lease. Nil: none.
	Skip func(*http.Request) bool
	// Counts reports whether an answer with this status costs the taken tokens. If not, another
	// write gives back everything that the handler has not settled:
	//
	//	Counts: func(status int) bool { return status == http.StatusUnauthorized } // only failed log-ins
	//
	// Until then the tokens stay taken, so the level bounds the requests in flight. They stay taken
	// if the client leaves, and if the handler panics or does not use the writer that it was given.
	// If a status that clients can cause does not count, their requests are free. Nil: all count.
	Counts func(status int) bool
	// Fields are the header fields about the limits. Nil: [RateLimit]; empty: none. Answers to
	// requests with an Origin also get Access-Control-Expose-Headers, with the names of these
	// fields and Retry-After.
	Fields []Fields
	// Denied answers a denied request. The header fields are set already, the status is not. Nil:
	// [WriteDenied].
	Denied func(http.ResponseWriter, *http.Request, Denial)
	// Failed answers a request for which there was no decision. Nil: [WriteFailed].
	Failed func(http.ResponseWriter, *http.Request, error)
	// Granted is called for every granted request before it is handled, for logs and metrics. It
	// must be quick. Nil: no calls.
	Granted func(*http.Request, *limiter.Lease)
	// Settled is called for every lease that could not be settled after its request was handled:
	// the tokens first taken stay taken. Nil: no calls.
	Settled func(*http.Request, error)
}

// Error is an error of [Options.Request] with the status of its answer, such as 401.
type Error struct {
	Status int // 400 to 599
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns a middleware that takes tokens before it hands a request on. When the handler is done
// it commits the lease, with the costs that the handler settled ([Lease]), even if the client has
// gone away or the handler panics. So a client cannot cause a refund, except by [Options.Counts]. A
// handler whose request failed before any work may roll the lease back. Under limiter.PolicyAllow a
// request without a decision is handed on too; its lease has charged nothing.
//
// Middlewares may be nested. If an inner one denies a request, the outer ones give their tokens
// back, unless something was settled. [Options.Fields] cover all of them.
//
// New panics if there is no limiter or no [Options.Request].
func New(l Acquirer, o Options) func(http.Handler) http.Handler {
	if own, ok := l.(*limiter.Limiter); l == nil || ok && own == nil {
		panic("bug: the limiter of httplimit.New is nil, want one that is open")
	}
	if o.Request == nil {
		panic("bug: Options.Request of httplimit.New is nil, want a function that says what a request takes")
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
	o.handle(next, w, r, lease)
}

// handle runs the hooks and the handler, and settles the lease, whatever becomes of the client.
func (o Options) handle(next http.Handler, w http.ResponseWriter, r *http.Request, lease *limiter.Lease) {
	client := r.Context()
	ctx, step := nested.Enter(client, lease)
	ctx, cancel := lease.Within(ctx)
	defer cancel()
	var failed error // to give back
	defer func() {   // also after a panic
		err := step.End(ctx)
		if errors.Is(err, limiter.ErrLeaseClosed) {
			err = nil
		}
		if err = errors.Join(failed, err); err != nil && o.Settled != nil {
			o.Settled(r, err)
		}
	}()
	r = r.WithContext(ctx)
	if o.Granted != nil {
		o.Granted(r, lease)
	}
	if lease.Charged() {
		r = o.set(w, r, lease.Status())
	}
	if o.Counts == nil {
		next.ServeHTTP(w, r)
		return
	}
	answer := &watched{ResponseWriter: w}
	next.ServeHTTP(answer, r)
	if answer.status != 0 && client.Err() == nil && !o.Counts(answer.status) {
		failed = lease.Rollback(ctx)
	}
}

// Lease returns the lease of a request that is being handled, nil if it is not limited; with
// several middlewares, the innermost one's. The handler may settle and charge; it may also roll
// back or commit itself, if that must happen before the answer is sent.
func Lease(r *http.Request) *limiter.Lease {
	lease, _ := nested.Innermost(r.Context()).(*limiter.Lease)
	return lease
}
