package limitertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A handler under test, limited to two requests per minute.
func Example() {
	t := new(testing.T) // in a test, its own
	table := limitertest.New(t)
	handler := httplimit.New(table.Limiter(nil), httplimit.Options{
		Request: func(*http.Request) (limiter.Request, error) {
			return limiter.Request{
				Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
				Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)},
			}, nil
		},
	})(http.NotFoundHandler())
	get := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	get()
	get()
	get()
	table.Advance(30 * time.Second)
	get()
	// Output:
	// 404 ""
	// 404 ""
	// 429 "30"
	// 404 ""
}

// What a program does when the table does not answer: nothing is written, or it is
// and the answer is lost.
func ExampleTable_Fail() {
	t := new(testing.T) // in a test, its own
	table := limitertest.New(t)
	l := table.Limiter(nil)
	take := func() {
		_, err := l.Acquire(context.Background(), limiter.Request{
			Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)},
		})
		fmt.Println(errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrUnknown), err == nil)
	}
	take()
	table.Fail(limiter.ErrUnavailable)
	take()
	table.Fail(limiter.ErrUnknown)
	take()
	// Output:
	// false false true
	// true false false
	// false true false
}

// Limits that are stored, instead of in the code, and what is left of them.
func ExampleTable_Admin() {
	t := new(testing.T) // in a test, its own
	table := limitertest.New(t)
	ns := table.Admin("default")
	ctx := context.Background()
	if err := ns.SetLimits(ctx, admin.Scope{Resource: "api"}, limiter.PerMinute("rpm", 100)); err != nil {
		fmt.Println(err)
	}
	l := table.Limiter(nil)
	_, err := l.Acquire(ctx, limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 30}})
	fmt.Println(err)
	buckets, err := ns.Peek(ctx, "acme", "api")
	fmt.Println(buckets[0].Levels[0].Remaining, err)
	// Output:
	// <nil>
	// 70 <nil>
}
