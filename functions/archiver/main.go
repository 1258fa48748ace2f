// Archiver is the Lambda function that writes audit events which expired by
// time to live to S3. It is fed by the table's stream; the event source mapping
// must have ReportBatchItemFailures set, and its filter should let pass REMOVE
// records of sort keys that start with #AUDIT#.
//
// The environment variable ARCHIVE_BUCKET_NAME names the bucket. The function
// needs s3:PutObject on it and nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
)

func main() {
	log := lambdacontext.NewLogger()
	h, err := newHandler(context.Background(), os.Getenv, log)
	if err != nil {
		log.Error("archiver not started", "err", err)
		os.Exit(1)
	}
	lambda.Start(lambdaio.HandlerFunc(h.Handle))
}

// newHandler validates the environment and builds what lives as long as the
// process. It does not talk to S3.
func newHandler(ctx context.Context, getenv func(string) string, log *slog.Logger) (*handler, error) {
	conf, err := config.ArchiverFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("aws configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New(`AWS_REGION="": want the region of the bucket`)
	}
	name := getenv("AWS_LAMBDA_FUNCTION_NAME")
	if name == "" {
		name = "archiver"
	}
	return &handler{
		store:    newClient(cfg),
		bucket:   conf.BucketName,
		function: name,
		log:      log,
		metrics:  os.Stdout,
	}, nil
}

// newClient is an S3 client that also repeats a put which met another put of
// the same key: the answer then says which of the two is stored.
func newClient(cfg aws.Config, options ...func(*s3.Options)) *s3.Client {
	return s3.NewFromConfig(cfg, append([]func(*s3.Options){func(o *s3.Options) {
		o.Retryer = retry.AddWithErrorCodes(o.Retryer, "ConditionalRequestConflict")
	}}, options...)...)
}
