package grpclimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// tower is limiters one within the other, each with a limit of its own.
type tower struct {
	*limitertest.Table
	limiter *limiter.Limiter
	settled []error
}

func newTower(t *testing.T) *tower {
	table := limitertest.New(t)
	return &tower{Table: table, limiter: table.Limiter(nil)}
}

func asks(name string, n int64) limiter.Request {
	return limiter.Request{Entity: name, Resource: "r", Costs: limiter.Costs{name: 1},
		Limits: []limiter.Limit{limiter.PerHour(name, n)}}
}

// call is the end of a call.
type call func(context.Context) error

// unary puts an interceptor with a limit of n an hour around a call.
func (w *tower) unary(name string, n int64, do call) call {
	limit := grpclimit.Unary(w.limiter, grpclimit.Options{
		Request: func(context.Context, grpclimit.Call) (limiter.Request, error) { return asks(name, n), nil },
		Settled: func(_ context.Context, _ grpclimit.Call, err error) { w.settled = append(w.settled, err) },
	})
	return func(ctx context.Context) error {
		handle := func(ctx context.Context, _ any) (any, error) { return nil, do(ctx) }
		_, err := limit(ctx, nil, &grpc.UnaryServerInfo{}, handle)
		return err
	}
}

// web is a middleware of HTTP around a call, as of a gateway in the same process.
func (w *tower) web(name string, n int64, do call) call {
	return func(ctx context.Context) (err error) {
		limit := httplimit.New(w.limiter, httplimit.Options{
			Request: func(*http.Request) (limiter.Request, error) { return asks(name, n), nil },
			Settled: func(_ *http.Request, err error) { w.settled = append(w.settled, err) },
		})
		limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { err = do(r.Context()) })).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		return err
	}
}

// Where an inner limiter denies a call, the outer ones give back what they took, and say so if they
// cannot. What was settled before stays.
func TestOuterLimitersGiveBackWhatAnInnerOneDenies(t *testing.T) {
	for kind, around := range map[string]func(*tower, string, int64, call) call{
		"unary": (*tower).unary, "web": (*tower).web,
	} {
		for _, c := range []struct {
			name  string
			then  func(*tower, context.Context) error // before the inner limiter is asked
			spent int64                               // of the outer limiter, by five more calls
		}{
			{"passes on", func(*tower, context.Context) error { return nil }, 0},
			{"settles first", func(_ *tower, ctx context.Context) error { return grpclimit.Lease(ctx).Settle(nil) }, 5},
			{"fails", func(*tower, context.Context) error { return status.Error(codes.Unauthenticated, "no key") }, 5},
		} {
			w := newTower(t)
			served := 0
			inner := w.unary("mid", 9, w.unary("key", 1, func(context.Context) error { served++; return nil }))
			do := around(w, "ip", 9, func(ctx context.Context) error {
				if err := c.then(w, ctx); err != nil {
					return err
				}
				return inner(ctx)
			})
			check.Must(t, inner(t.Context()))
			for range 5 {
				if err := do(t.Context()); err == nil {
					t.Errorf("%s that %s: granted", kind, c.name)
				}
			}
			for name, want := range map[string]int64{"ip": c.spent, "mid": 1} {
				b, err := w.Admin("").Peek(t.Context(), name, "r")
				check.Must(t, err)
				if spent := 9 - b[0].Levels[0].Remaining; spent != want || served != 1 || len(w.settled) > 0 {
					t.Errorf("%s that %s: %d of %s spent, want %d; %d served, %v", kind, c.name, spent, name, want, served, w.settled)
				}
			}
		}
	}
}
