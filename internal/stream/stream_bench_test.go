package stream_test

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// The benchmarks run on the same payload: 100 records over 20 buckets with two
// limits. Compare their ns/record: decoding and folding a record costs at most
// a fifth of decoding it into the Lambda library's event type (docs/design.md, Budgets).
const benchRecords, benchBuckets = 100, 20

func benchmark(b *testing.B, decode func(payload []byte) int) {
	payload := batch(benchRecords, benchBuckets)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		check.MustEqual(b, decode(payload), benchRecords)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(payload []byte) int {
		got, err := stream.Decode(payload)
		check.Must(b, err)
		return len(got.Changes)
	})
}

func BenchmarkDecodeFold(b *testing.B) {
	benchmark(b, func(payload []byte) int {
		got, err := stream.Decode(payload)
		check.Must(b, err)
		parts := usage.Extend(nil, usage.Fold(got.Changes), usage.Hourly)
		check.MustEqual(b, len(parts), benchBuckets)
		for i := range parts {
			usage.Totals(parts[i:i+1], usage.Hourly)
		}
		return len(got.Changes)
	})
}

func BenchmarkLambdaEventDecode(b *testing.B) {
	benchmark(b, func(payload []byte) int {
		var e events.DynamoDBEvent
		check.Must(b, json.Unmarshal(payload, &e))
		return len(e.Records)
	})
}
