package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

var tenants = map[string]string{"key-of-acme": "acme"} // keys that are known

func ExampleNew() {
	l := limitertest.New(new(testing.T)).Limiter(nil) // in a program, limiter.Open
	handler := httplimit.New(l, httplimit.Options{
		Request: func(r *http.Request) (limiter.Request, error) {
			tenant, ok := tenants[r.Header.Get("X-Api-Key")]
			if !ok {
				return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: errors.New("unknown key")}
			}
			return limiter.Request{
				Entity: tenant, Resource: "api", Costs: limiter.Costs{"rpm": 1, "bytes": 1000},
				Limits: []limiter.Limit{limiter.PerMinute("rpm", 2), limiter.PerMinute("bytes", 10_000)},
			}, nil
		},
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := fmt.Fprint(w, "hello")
		if err := httplimit.Lease(r).Settle(limiter.Costs{"bytes": int64(n)}); err != nil {
			panic(err)
		}
	}))
	for _, key := range []string{"key-of-acme", "key-of-acme", "key-of-acme", "made up"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "bytes";r=9000;t=1, "rpm";r=1;t=30
	// 200 "bytes";r=8995;t=1, "rpm";r=0;t=30
	// 429 "bytes";r=9990;t=1, "rpm";r=0;t=30
	// 401
}
