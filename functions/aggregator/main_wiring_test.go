package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// firstBatch returns a process's response, metrics and log for a batch of one malformed record, and
// its puts to S3.
func firstBatch(t *testing.T, env map[string]string) (response, metrics, log string, puts []string) {
	t.Helper()
	asked := make(chan string, 10)
	s3 := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
	}))
	defer s3.Close()
	t.Setenv("AWS_ENDPOINT_URL", s3.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	read, write, err := os.Pipe()
	check.Must(t, err)
	defer func(was *os.File) { os.Stdout = was }(os.Stdout)
	os.Stdout = write
	var said bytes.Buffer
	t.Setenv("AWS_REGION", "eu-central-1")
	a, err := newAggregator(func(k string) string { return env[k] },
		slog.New(slog.NewTextHandler(&said, nil)))
	check.Must(t, err)
	out, err := a.Invoke(t.Context(), []byte(`{"Records":[{"eventName":"MODIFY","dynamodb":{
		"SequenceNumber":"7","ApproximateCreationDateTime":1700000000,
		"Keys":{"PK":{"S":"ns/BUCKET#a#r#0"},"SK":{"S":"#STATE"}},
		"NewImage":{"PK":{"S":"ns/BUCKET#a#r#0"},"SK":{"S":"#STATE"},"b_rpm_tc":{"S":"many"}}}}]}`))
	told, failed := []byte{}, errors.Join(err, write.Close())
	if failed == nil {
		told, failed = io.ReadAll(read)
	}
	if failed != nil {
		t.Fatal(failed)
	}
	for len(asked) > 0 {
		puts = append(puts, <-asked)
	}
	return string(out), string(told), said.String(), puts
}

// The parts of a process reach its first batch: the bucket of malformed records, the log, the
// metrics on stdout, and their name. Without a bucket the record is not done, and S3 is not called.
func TestTheFirstBatch(t *testing.T) {
	env := map[string]string{function.EnvTableName: "limits", "AWS_LAMBDA_FUNCTION_NAME": "fold",
		"AWS_LAMBDA_LOG_LEVEL": "ERROR"}
	for bucket, want := range map[string]struct {
		response string
		puts     int
	}{"dead-letters": {`{"batchItemFailures":[]}`, 1}, "": {`{"batchItemFailures":[{"itemIdentifier":"7"}]}`, 0}} {
		env[function.EnvDeadLetterBucketName] = bucket
		response, metrics, log, puts := firstBatch(t, env)
		if response != want.response || len(puts) != want.puts {
			t.Errorf("bucket %q: response %s, asked of S3 %q", bucket, response, puts)
		}
		if len(puts) > 0 && !strings.HasPrefix(puts[0], "PUT /dead-letters/malformed/") {
			t.Errorf("asked of S3 %q", puts)
		}
		if !strings.Contains(metrics, `"fold"`) || !strings.Contains(metrics, `"Malformed":1`) ||
			!strings.Contains(metrics, `"level":"ERROR"`) {
			t.Errorf("metrics %s", metrics)
		}
		if !strings.Contains(log, "malformed=1") {
			t.Errorf("log %s", log)
		}
	}
}

// The memory has a limit, unless the environment sets one.
func TestTheMemoryIsLimited(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	t.Setenv("GOMEMLIMIT", "1GiB")
	limitMemory()
	check.Equal(t, debug.SetMemoryLimit(-1), math.MaxInt64, "beside GOMEMLIMIT bytes")
	t.Setenv("GOMEMLIMIT", "")
	limitMemory()
	check.Equal(t, debug.SetMemoryLimit(-1), 72<<20, "bytes")
}
