package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/streams"
)

// started runs newAggregator with an environment and a region.
func started(t *testing.T, env map[string]string) (*streams.Aggregator, error) {
	t.Helper()
	t.Setenv("AWS_REGION", "eu-central-1")
	return newAggregator(func(k string) string { return env[k] }, slog.New(slog.DiscardHandler))
}

// The aggregator accepts what internal/function accepts, at both ends of every range.
func TestEveryConfigurationStarts(t *testing.T) {
	for _, env := range []map[string]string{
		{},
		{function.EnvDeadLetterBucketName: "dead-letters"},
		{function.EnvSnapshotWindows: strings.Join(function.WindowNames(), ",")},
		{function.EnvSnapshotTTLDays: "1", function.EnvMaxShards: "1", function.EnvMergeAfterSeconds: "1",
			function.EnvWriteConcurrency: "1"},
		{function.EnvSnapshotTTLDays: "3650", function.EnvMaxShards: "1024", function.EnvMergeAfterSeconds: "86400",
			function.EnvWriteConcurrency: "256", function.EnvMaxWriteUnits: "40000"},
		{function.EnvMaxWriteUnits: "1"},
	} {
		env[function.EnvTableName] = "limits"
		check.NoError(t, check.Err(started(t, env)), "%v", env)
	}
}

// Each variable that is set changes the aggregator's options.
func TestEveryVariableIsAnOption(t *testing.T) {
	const required = "limits"
	bare := map[string]string{function.EnvTableName: required}
	plain, err := function.AggregatorFromEnv(func(k string) string { return bare[k] })
	check.Must(t, err)
	for variable, value := range map[string]string{
		function.EnvTableName: "others", function.EnvSnapshotWindows: "monthly", function.EnvSnapshotTTLDays: "7",
		function.EnvMaxShards: "2", function.EnvMergeAfterSeconds: "77", function.EnvWriteConcurrency: "3",
		function.EnvMaxWriteUnits: "100", function.EnvThresholds: "60",
	} {
		env := map[string]string{function.EnvTableName: required, variable: value}
		conf, err := function.AggregatorFromEnv(func(k string) string { return env[k] })
		check.Must(t, err)
		if reflect.DeepEqual(settings(conf), settings(plain)) {
			t.Errorf("%s=%s changes no option", variable, value)
		}
	}
}

func TestStartNamesEveryMistake(t *testing.T) {
	_, err := started(t, map[string]string{function.EnvMaxShards: "3"})
	check.Says(t, err, `MAX_SHARDS="3"`)
	check.Says(t, err, `TABLE_NAME=""`)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_REGION", "")
	_, err = newAggregator(func(k string) string {
		return map[string]string{function.EnvTableName: "limits"}[k]
	}, slog.New(slog.DiscardHandler))
	check.Says(t, err, `AWS_REGION="": want the region of the table`)
}

// After the first round, every write that may be in flight has an open connection.
func TestConnectionsAreKept(t *testing.T) {
	const writes = 256
	var opened atomic.Int64
	together := make(chan struct{}, writes) // a round is answered when all requests have arrived
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		together <- struct{}{}
		<-release
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	c := client(writes)
	for range 2 {
		var wg sync.WaitGroup
		for range writes {
			wg.Go(func() {
				in, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
				if err != nil {
					t.Error(err)
					return
				}
				out, err := c.Do(in)
				if err != nil {
					t.Error(err)
					return
				}
				check.NoError(t, out.Body.Close())
			})
		}
		for range writes {
			<-together
		}
		for range writes {
			release <- struct{}{}
		}
		wg.Wait()
	}
	if n := opened.Load(); n != writes {
		t.Errorf("%d connections for %d writes at once", n, writes)
	}
}

// The aggregator's own client of the table keeps as many connections, and at least the SDK's
// number.
func TestTheTablesClientKeepsConnections(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	for writes, want := range map[string]int{"1": awshttp.DefaultHTTPTransportMaxIdleConnsPerHost, "256": 256} {
		env := map[string]string{function.EnvTableName: "limits", function.EnvWriteConcurrency: writes}
		o, err := options(func(k string) string { return env[k] }, slog.New(slog.DiscardHandler))
		check.Must(t, err)
		c, ok := o.DynamoDB.(*dynamodb.Client).Options().HTTPClient.(*awshttp.BuildableClient)
		if !ok || c.GetTransport().MaxIdleConnsPerHost != want {
			t.Errorf("%s writes: %T keeps %+v, want %d", writes, c, c, want)
		}
		check.Equal(t, o.Name, "aggregator", "not deployed, it is called")
	}
}

// bucket is an S3 that remembers the last object, and can be made to fail.
type bucket struct {
	in   *s3.PutObjectInput
	body string
	fail error
}

func (b *bucket) PutObject(ctx context.Context, in *s3.PutObjectInput,
	_ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	body, err := io.ReadAll(in.Body)
	b.in, b.body = in, string(body)
	return &s3.PutObjectOutput{}, errors.Join(err, b.fail, ctx.Err())
}

func TestMalformedRecordsGoToTheDeadLetterBucket(t *testing.T) {
	o := streams.Object{Key: "malformed/1.jsonl.gz", Body: []byte("packed"), ContentType: "application/x-ndjson",
		ContentEncoding: "gzip"}
	b := &bucket{}
	keep := keepIn("dead-letters", b)
	check.Must(t, keep(t.Context(), o))
	if *b.in.Bucket != "dead-letters" || *b.in.Key != o.Key || b.body != "packed" ||
		*b.in.ContentType != o.ContentType || *b.in.ContentEncoding != o.ContentEncoding {
		t.Errorf("put %+v with body %q", b.in, b.body)
	}
	if b.fail = errors.New("down"); !errors.Is(keep(t.Context(), o), b.fail) {
		t.Error("a failure is not reported")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	check.Is(t, keep(over, o), context.Canceled, "after the end")
}
