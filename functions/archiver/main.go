// Archiver is the Lambda function that writes audit events expired by time to live to S3. The
// table's stream invokes it; the event source mapping must have ReportBatchItemFailures set, and
// its filter should pass REMOVE records of sort keys that start with #AUDIT#.
//
// The environment variable ARCHIVE_BUCKET_NAME names the bucket. The function
// needs s3:PutObject on it and nothing else.
package main

import (
	"log/slog"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/functions/internal/start"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

func main() { start.Function("archiver", newHandler) }

// newHandler validates the environment, and builds everything that lives as long as the process. It
// does not call S3.
func newHandler(getenv func(string) string, log *slog.Logger) (*handler, error) {
	bucket, err := function.ArchiveFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	cfg, err := start.Config("bucket")
	if err != nil {
		return nil, err
	}
	return &handler{
		store:    newClient(cfg),
		bucket:   bucket,
		function: function.Name(getenv, "archiver"),
		log:      log,
		metrics:  start.Metrics(getenv, os.Stdout),
	}, nil
}

// newClient returns an S3 client that also retries a put that collided with another put of the same
// key: the next response shows which of the two is stored.
func newClient(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.Retryer = retry.AddWithErrorCodes(o.Retryer, "ConditionalRequestConflict")
	})
}
