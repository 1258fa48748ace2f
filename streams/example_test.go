package streams_test

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/streams"
)

// A Lambda function that also counts usage by month, and splits nothing.
func ExampleNew() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	agg, err := streams.New(streams.Options{
		DynamoDB: dynamodb.NewFromConfig(cfg), Table: "zae-limiter",
		Windows:   []string{"hourly", "daily", "monthly"},
		MaxShards: 1,
		Metrics:   os.Stdout,
	})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(agg)
}
