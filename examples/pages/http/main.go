// The program of docs/http-grpc.md: an HTTP API of which each tenant may ask so often.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

var tenants = map[string]string{"demo": "acme"} // by API key

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", nil)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe("localhost:8080", limited(l, mux)))
}

func limited(l *limiter.Limiter, next http.Handler) http.Handler {
	limit := httplimit.New(l, httplimit.Options{
		Request: func(r *http.Request) (limiter.Request, error) {
			tenant, ok := tenants[r.Header.Get("X-Api-Key")]
			if !ok {
				return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: errors.New("unknown key")}
			}
			return limiter.Request{Entity: tenant, Resource: "api", Costs: limiter.Costs{"rpm": 1}}, nil
		},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Failed: func(w http.ResponseWriter, r *http.Request, err error) {
			slog.ErrorContext(r.Context(), "not limited", "err", err) // the answer does not say why
			httplimit.WriteFailed(w, r, err)
		},
	})
	return limit(next)
}
