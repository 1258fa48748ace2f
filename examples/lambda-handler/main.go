// Lambda-handler is an AWS Lambda function behind an HTTP API of API Gateway whose JWT
// authorizer has checked who calls. The limits are those that are stored:
//
//	zae-limiter limits set -r reports rpm=60
//
// Three things are special in Lambda. The limiter is opened once per execution environment,
// outside of the handler, so what it has learned stays while the environment is warm. Nothing is left
// to do after the handler has returned, because the environment is frozen then: work that settles
// what it has cost commits its lease before. The time for a decision is bounded well below that of
// the function.
//
// The role of the function needs the rights of the stack's client policy. Build and
// deploy it like any function:
//
//	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -o bootstrap ./lambda-handler
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

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
	lambda.Start((&handler{l}).handle)
}

type handler struct{ limiter *limiter.Limiter }

type (
	request  = events.APIGatewayV2HTTPRequest
	response = events.APIGatewayV2HTTPResponse
)

func (h *handler) handle(ctx context.Context, e request) (response, error) {
	auth := e.RequestContext.Authorizer
	if auth == nil || auth.JWT == nil || auth.JWT.Claims["sub"] == "" {
		return response{StatusCode: http.StatusUnauthorized}, nil
	}
	req := limiter.Request{
		Entity: auth.JWT.Claims["sub"], Resource: "reports", Costs: limiter.Costs{"rpm": 1},
	}
	lease, err := h.limiter.Acquire(ctx, req)
	if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
		return tooMany(denied, req)
	}
	if err != nil {
		slog.ErrorContext(ctx, "not limited", "err", err)
		return response{StatusCode: http.StatusServiceUnavailable}, nil
	}
	out := response{
		StatusCode: http.StatusOK, Headers: map[string]string{"Content-Type": "application/json"},
		Body: `{"report":"all is well"}`, // it has cost what was taken, also if it could not be made: nothing to commit
	}
	if lease.Charged() {
		set(out.Headers, lease.Status())
	}
	return out, nil
}

// tooMany is the answer to a denied request.
func tooMany(denied *limiter.LimitError, req limiter.Request) (response, error) {
	body, err := json.Marshal(httplimit.Denial{LimitError: denied, Request: req}.Body())
	if err != nil {
		return response{}, err
	}
	seconds := int64(math.Ceil(denied.RetryAfter.Seconds()))
	headers := map[string]string{"Content-Type": "application/json", "Retry-After": strconv.FormatInt(seconds, 10)}
	set(headers, denied.Statuses)
	return response{StatusCode: http.StatusTooManyRequests, Headers: headers, Body: string(body)}, nil
}

// set sets RateLimit and RateLimit-Policy.
func set(headers map[string]string, statuses []limiter.Status) {
	fields := http.Header{}
	httplimit.RateLimit(fields, statuses)
	for name := range fields {
		headers[name] = fields.Get(name)
	}
}
