// Lambda-handler is an AWS Lambda function behind an HTTP API of API Gateway whose JWT
// authorizer has checked the caller. The limits are the stored ones:
//
//	zae-limiter limits set -r reports rpm=60
//
// It is an http.Handler as on any server: the adapter of AWS turns events into requests. Three
// things are special in Lambda. The limiter is opened once per execution environment, outside of
// the handler, so what it has learned stays while the environment is warm. A lease is committed
// before the handler returns, because the environment is frozen after that: httplimit does so. The
// time for a decision is bounded well below the function's.
//
// The role of the function needs the rights of the stack's client policy. Build and
// deploy it like any function:
//
//	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -o bootstrap ./lambda-handler
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), cmp.Or(os.Getenv("ZAEL_STACK"), "zae-limiter"),
		&limiter.Options{
			Timeout:       time.Second,
			OnUnavailable: limiter.PolicyAllow, // a report more does no harm
		})
	if err != nil {
		log.Fatal(err)
	}
	limited := httplimit.New(l, httplimit.Options{Request: request, Failed: failed})
	lambda.Start(httpadapter.NewV2(limited(http.HandlerFunc(report))).ProxyWithContext)
}

// report answers with the report. Its tokens stay taken, also if it could not be made.
func report(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"report":"all is well"}`)
}

// request says what a request takes: one of rpm, by the subject that the authorizer has found in the token.
func request(r *http.Request) (limiter.Request, error) {
	gateway, ok := core.GetAPIGatewayV2ContextFromContext(r.Context())
	auth := gateway.Authorizer
	if !ok || auth == nil || auth.JWT == nil || auth.JWT.Claims["sub"] == "" {
		return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: errors.New("no subject")}
	}
	return limiter.Request{Entity: auth.JWT.Claims["sub"], Resource: "reports", Costs: limiter.Costs{"rpm": 1}}, nil
}

// failed logs why there was no decision; the answer does not say.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	slog.ErrorContext(r.Context(), "not limited", "err", err)
	httplimit.WriteFailed(w, r, err)
}
