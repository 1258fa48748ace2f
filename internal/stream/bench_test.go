package stream_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// The two benchmarks run on the same payload: 100 records over 20 buckets with
// two limits. Compare their ns/record (design section 5: at most one fifth).
const benchRecords, benchBuckets = 100, 20

func perRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkDecode(b *testing.B) {
	payload := batch(benchRecords, benchBuckets)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if got, err := stream.Decode(payload); err != nil || len(got.Changes) != benchRecords {
			b.Fatal(err, len(got.Changes))
		}
	}
	perRecord(b)
}

func BenchmarkLambdaEventDecode(b *testing.B) {
	payload := batch(benchRecords, benchBuckets)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		var e events.DynamoDBEvent
		if err := json.Unmarshal(payload, &e); err != nil || len(e.Records) != benchRecords {
			b.Fatal(err, len(e.Records))
		}
	}
	perRecord(b)
}

var _ = []any{os.Args, exec.Command, runtime.GC, strconv.Itoa, strings.Cut}
