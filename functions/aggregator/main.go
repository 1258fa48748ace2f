// Aggregator is the Lambda function around package streams: it counts usage, keeps buckets warm,
// splits hot ones, and merges cool ones. The table's stream invokes it; the event source mapping
// must have ReportBatchItemFailures set, and its filter should pass all records of the sort key
// #STATE. With a tumbling window, usage is folded over that time; without one, it is written with
// every batch.
//
// Environment: TABLE_NAME (required), SNAPSHOT_WINDOWS, SNAPSHOT_TTL_DAYS, MAX_SHARDS,
// MERGE_AFTER_SECONDS, WRITE_CONCURRENCY, MAX_WRITE_UNITS, THRESHOLDS, ALERT_TARGET_ARN,
// DEAD_LETTER_BUCKET_NAME. It needs dynamodb:UpdateItem, PutItem, DeleteItem, ConditionCheckItem,
// BatchGetItem and Query on the table, s3:PutObject below malformed/ in the dead letter bucket, and
// events:PutEvents on the bus or sns:Publish on the topic.
package main

import (
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/functions/internal/start"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/streams"
)

// memoryLimit makes the garbage collector run more often instead of letting the process grow beyond
// it: the library doubles its buffer while it reads a large payload. Lambda's largest payload, 6
// MB, needs far less. GOMEMLIMIT, if set, takes precedence.
const memoryLimit = 72 << 20

func main() {
	limitMemory()
	start.Function("aggregator", newAggregator)
}

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// newAggregator validates the environment, and builds everything that lives as long as the process.
// It makes no calls.
func newAggregator(getenv func(string) string, log *slog.Logger) (*streams.Aggregator, error) {
	o, err := options(getenv, log)
	if err != nil {
		return nil, err
	}
	return streams.New(o)
}

// options returns the options of the aggregator.
func options(getenv func(string) string, log *slog.Logger) (streams.Options, error) {
	conf, err := function.AggregatorFromEnv(getenv)
	if err != nil {
		return streams.Options{}, err
	}
	cfg, err := start.Config("table", awsconfig.WithHTTPClient(client(conf.WriteConcurrency)))
	if err != nil {
		return streams.Options{}, err
	}
	o := settings(conf)
	o.DynamoDB = dynamodb.NewFromConfig(cfg)
	o.Name, o.Log, o.Metrics = function.Name(getenv, "aggregator"), log, start.Metrics(getenv, os.Stdout)
	if conf.AlertTargetARN != "" {
		to, err := newTarget(conf.AlertTargetARN, cfg)
		if err != nil {
			return streams.Options{}, err
		}
		o.Alert = to.send
	}
	if conf.DeadLetterBucketName != "" {
		o.Keep = keepIn(conf.DeadLetterBucketName, s3.NewFromConfig(cfg))
	}
	return o, nil
}

// client keeps a connection open for every write in flight. With the default of ten idle ones per
// host, and a hundred in total, each further write would open and close one.
func client(writes int) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, max(t.MaxIdleConnsPerHost, writes) // 0: no bound
	})
}

// settings returns the options from the configuration.
func settings(conf function.Aggregator) streams.Options {
	return streams.Options{
		Table: conf.TableName, Windows: conf.Windows, SnapshotTTLDays: conf.SnapshotTTLDays, MaxShards: conf.MaxShards,
		MergeAfter: time.Duration(conf.MergeAfter) * time.Second, Concurrency: conf.WriteConcurrency,
		MaxWriteUnits: conf.MaxWriteUnits, Thresholds: conf.Thresholds,
	}
}
