// The program of docs/lambda.md: a function of which each tenant may use so much.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

type request struct{ Tenant string }

func handler(l *limiter.Limiter) func(context.Context, request) (string, error) {
	return func(ctx context.Context, r request) (string, error) {
		_, err := l.Acquire(ctx, limiter.Request{
			Entity: r.Tenant, Resource: "jobs", Costs: limiter.Costs{"rpm": 1},
		})
		if err != nil {
			return "", err
		}
		return "done for " + r.Tenant, nil // your work: it has cost its token, also if it fails
	}
}

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), os.Getenv("TABLE"), &limiter.Options{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler(l))
}
