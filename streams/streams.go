package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// DynamoDB lists the methods of a DynamoDB client that the aggregator needs; *dynamodb.Client of
// the AWS SDK for Go v2 has them. BatchWriteItem is never called. The client's own retries are
// turned off for writes.
type DynamoDB interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Object is a malformed record to be stored: one line of JSON with the record and the reason why it
// is malformed, compressed.
type Object struct {
	// Key is malformed/year=…/month=…/day=…/{sequence number}-{hash}.jsonl.gz. It
	// depends on the record alone: a record delivered again has the same key.
	Key             string
	Body            []byte // must not be changed
	ContentType     string // application/x-ndjson
	ContentEncoding string // gzip
}

// Options are the settings of an [Aggregator]. DynamoDB and Table are required; the
// zero value of every other field means its default.
type Options struct {
	DynamoDB DynamoDB
	Table    string

	// Windows are the kinds of windows to count usage in, of "hourly", "daily" and "monthly", none
	// twice. Windows are cut in UTC. Default: hourly and daily.
	Windows []string
	// SnapshotTTLDays is how many days a snapshot outlives its window, 1 to 3650.
	// Default 90.
	SnapshotTTLDays int
	// MaxShards is the most shards a bucket is split into, a power of two up to
	// 1024. Default 32; 1: nothing is split.
	MaxShards int
	// MergeAfter is how long after a split or merge a cool bucket is merged, 1s to
	// 24h, in whole milliseconds. Default 10m.
	MergeAfter time.Duration
	// Concurrency is how many writes are in flight at once, 1 to 256. Default 16.
	// The client should keep as many idle connections.
	Concurrency int

	// MaxWriteUnits is how many write units a second the aggregator takes from the table, 0 to
	// 40000. Default 0: as many as it needs. A batch that does not fit into its time is delivered
	// again and continues. The bound applies to all batches of one aggregator together, but not to
	// other processes. Items above 1 KB cost more than expected; the aggregator then waits
	// afterwards.
	MaxWriteUnits int

	// Thresholds are the percentages of quotas, 1 to 100, that are reported when they are spent: by
	// the name of the limit, under "" for all others. A bucket with more than 131 limits has none.
	// Default: 50, 80 and 100 for all.
	Thresholds map[string][]int
	// Alert sends a threshold, before its record is written. It may be called again with the same
	// ID, and from several goroutines; its context ends after 5 s. If it returns an error, the
	// batch is delivered again from the record that showed the threshold. If that error is
	// [ErrAlertRefused], the batch is not delivered again: the threshold is tried again with the
	// first use in another hour of its period. Default: no alerts are sent.
	Alert func(context.Context, Alert) error

	// Keep stores a malformed record. It may be called again with the same object, and from several
	// goroutines; its context ends after 5 s. If it returns an error, or there is no Keep, the
	// record is reported as not done: Lambda delivers it again, and in the end hands it to the
	// on-failure destination.
	Keep func(context.Context, Object) error

	// Now is the clock; default time.Now.
	Now func() time.Time
	// Log gets a line per batch and one for every malformed record and failed
	// write. Default: nothing is logged.
	Log *slog.Logger
	// Metrics gets a line per batch in CloudWatch's embedded metric format; in
	// Lambda that is os.Stdout. Default: none is written.
	Metrics io.Writer
	// Name is the function's name in the metrics. Default "aggregator".
	Name string
}

// maxWriteUnits is DynamoDB's default limit for a table.
const maxWriteUnits = 40_000

// Aggregator folds batches of stream records into the table. It is safe for concurrent use, and
// keeps no state between batches.
type Aggregator struct {
	store       store.Lister
	table       string
	alert       func(context.Context, Alert) error  // nil: thresholds are not sent
	keep        func(context.Context, Object) error // nil: malformed records are reported as not done
	conf        usage.Config
	concurrency int
	pace        *pace        // nil: no bound
	now         func() int64 // epoch milliseconds
	function    string       // the function's name in the metrics
	log         *slog.Logger
	metrics     io.Writer
}

// New returns an aggregator. It makes no calls. The error joins everything that is wrong with the
// options.
func New(o Options) (*Aggregator, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Aggregator{
		store: listing(o),
		table: o.Table,
		alert: o.Alert,
		keep:  o.Keep,
		conf: usage.Config{
			SnapshotTTLDays: o.SnapshotTTLDays, MaxShards: o.MaxShards, MergeAfter: o.MergeAfter.Milliseconds(),
			Percents: map[string][]int{},
		},
		concurrency: o.Concurrency,
		now:         func() int64 { return o.Now().UnixMilli() },
		function:    o.Name,
		log:         o.Log,
		metrics:     o.Metrics,
	}
	if o.MaxWriteUnits > 0 {
		a.pace = &pace{each: time.Second / time.Duration(o.MaxWriteUnits)}
	}
	for _, w := range o.Windows {
		a.conf.Windows = append(a.conf.Windows, usage.Window(w))
	}
	for limit, percents := range o.Thresholds {
		a.conf.Percents[limit] = slices.Sorted(slices.Values(percents))
	}
	return a, nil
}

// listing returns the table. A table in memory, as in tests, is used directly.
func listing(o Options) store.Lister {
	if twin, ok := o.DynamoDB.(store.Lister); ok {
		return twin
	}
	return store.NewListing(o.DynamoDB, o.Table)
}

func (o *Options) setDefaults() {
	if len(o.Windows) == 0 {
		o.Windows = []string{"hourly", "daily"}
	}
	if o.Thresholds == nil {
		o.Thresholds = function.DefaultThresholds()
	}
	o.SnapshotTTLDays = cmp.Or(o.SnapshotTTLDays, function.DefaultSnapshotTTLDays)
	o.MaxShards = cmp.Or(o.MaxShards, function.DefaultMaxShards)
	o.MergeAfter = cmp.Or(o.MergeAfter, function.DefaultMergeAfter*time.Second)
	o.Concurrency = cmp.Or(o.Concurrency, function.DefaultWriteConcurrency)
	o.Name = cmp.Or(o.Name, "aggregator")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Metrics == nil {
		o.Metrics = io.Discard
	}
}

func (o *Options) check() error {
	var problems []error
	want := func(ok bool, field string, value any, accepted string) {
		if !ok {
			problems = append(problems, fmt.Errorf("streams: %s=%v: want %s", field, value, accepted))
		}
	}
	want(o.DynamoDB != nil, "DynamoDB", o.DynamoDB, "a client")
	want(o.Table != "", "Table", `""`, "the name of a table")
	for i, w := range o.Windows {
		_, err := usage.ParseWindow(w)
		want(err == nil && !slices.Contains(o.Windows[:i], w), "Windows", o.Windows,
			"hourly, daily and monthly, each at most once")
	}
	want(o.SnapshotTTLDays >= 1 && o.SnapshotTTLDays <= function.MaxSnapshotTTLDays, "SnapshotTTLDays",
		o.SnapshotTTLDays, fmt.Sprintf("1 to %d", function.MaxSnapshotTTLDays))
	want(o.MaxShards >= 1 && o.MaxShards <= function.MaxMaxShards && o.MaxShards&(o.MaxShards-1) == 0, "MaxShards",
		o.MaxShards, fmt.Sprintf("a power of two from 1 to %d", function.MaxMaxShards))
	want(o.MergeAfter >= time.Second && o.MergeAfter <= function.MaxMergeAfter*time.Second, "MergeAfter",
		o.MergeAfter, "1s to 24h")
	want(o.Concurrency >= 1 && o.Concurrency <= function.MaxWriteConcurrency, "Concurrency", o.Concurrency,
		fmt.Sprintf("1 to %d", function.MaxWriteConcurrency))
	for limit, percents := range o.Thresholds {
		for i, p := range percents {
			want(p >= 1 && p <= 100 && !slices.Contains(percents[:i], p), fmt.Sprintf("Thresholds[%q]", limit), percents,
				"percents from 1 to 100, each at most once")
		}
	}
	want(o.MaxWriteUnits >= 0 && o.MaxWriteUnits <= maxWriteUnits, "MaxWriteUnits", o.MaxWriteUnits,
		fmt.Sprintf("0 to %d", maxWriteUnits))
	return errors.Join(problems...)
}
