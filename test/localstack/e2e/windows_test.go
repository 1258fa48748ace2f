package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// direct lets a test deliver payloads itself.
func direct(env ...string) func(*runtimeapi.Config, *eventsource.Config) {
	return func(host *runtimeapi.Config, m *eventsource.Config) {
		host.Environments = 1
		host.Env = append(host.Env, env...)
		m.Settings.Filters = []string{`{"eventName":["NOTHING"]}`}
	}
}

// D10: a record counts in the hour, day and month of its own creation, to the
// second, and windows that start together are items of their own.
func TestRecordsLandInTheWindowOfTheirOwnSecond(t *testing.T) {
	r := start(t, setup{aggregate: direct("SNAPSHOT_WINDOWS=hourly,daily,monthly")})
	limits := stored([]limiter.Limit{limiter.PerSecond("rpm", 1000)})
	b := table.Shard{Namespace: "w", Entity: "e", Resource: "gpt", State: bucket.New(limits, 0, 1, 0)}
	var records []streamtest.Record
	for i, at := range []string{
		"2025-12-31T22:59:59Z", "2025-12-31T23:00:00Z", "2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z",
		"2026-01-01T00:59:59Z",
		"2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z", "2028-02-29T23:59:59Z", "2028-03-01T00:00:00Z",
	} {
		created, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		rec := streamtest.Record{Sequence: fmt.Sprint(10 + i), Created: created.UnixMilli(), Old: b.Item()}
		if i == 0 {
			rec.Old = nil
		}
		b.State = b.State.Take([]int64{bucket.Milli << i, bucket.WCUPerWrite}) // 1, 2, 4, ... tokens: a sum tells its parts
		rec.New = b.Item()
		records = append(records, rec)
	}
	// As one batch, and again as Lambda might cut it.
	for _, part := range [][]streamtest.Record{records, records[:4], records[4:], records[2:6]} {
		result, err := r.Functions[stack.Aggregator].Host.Invoke(t.Context(), streamtest.Payload(part...))
		if err != nil || result.FunctionError != "" || string(result.Payload) != `{"batchItemFailures":[]}` {
			t.Fatalf("%s %v\n%s", result.Payload, err, tail(r.Functions[stack.Aggregator].Host.Logs()))
		}
	}
	var got []string
	for _, it := range r.items() {
		if ledger.WindowOf(it) == "" {
			continue
		}
		s, err := ledger.DecodeSnapshot(it)
		if err != nil {
			t.Fatal(err)
		}
		if days := float64(s.TTL-outlived(t, s)) / 86400; days < 89.9 || days > 90 {
			t.Errorf("%v outlives its window by %.1f days, want 90", s.Key(), days)
		}
		got = append(got, fmt.Sprintf("%-33s %-7s from %s: rpm %d in %d records", item.KeyOf(it).SK, s.Window, s.Start,
			s.Counts["rpm"], s.Events))
	}
	slices.Sort(got)
	want := []string{
		"#USAGE#gpt#2025-12                monthly from 2025-12-01T00:00:00Z: rpm 7 in 3 records",
		"#USAGE#gpt#2025-12-31             daily   from 2025-12-31T00:00:00Z: rpm 7 in 3 records",
		"#USAGE#gpt#2025-12-31T22:00:00Z   hourly  from 2025-12-31T22:00:00Z: rpm 1 in 1 records",
		"#USAGE#gpt#2025-12-31T23:00:00Z   hourly  from 2025-12-31T23:00:00Z: rpm 6 in 2 records",
		"#USAGE#gpt#2026-01                monthly from 2026-01-01T00:00:00Z: rpm 56 in 3 records",
		"#USAGE#gpt#2026-01-01             daily   from 2026-01-01T00:00:00Z: rpm 24 in 2 records",
		"#USAGE#gpt#2026-01-01T00:00:00Z   hourly  from 2026-01-01T00:00:00Z: rpm 24 in 2 records",
		"#USAGE#gpt#2026-01-31             daily   from 2026-01-31T00:00:00Z: rpm 32 in 1 records",
		"#USAGE#gpt#2026-01-31T23:00:00Z   hourly  from 2026-01-31T23:00:00Z: rpm 32 in 1 records",
		"#USAGE#gpt#2026-02                monthly from 2026-02-01T00:00:00Z: rpm 64 in 1 records",
		"#USAGE#gpt#2026-02-01             daily   from 2026-02-01T00:00:00Z: rpm 64 in 1 records",
		"#USAGE#gpt#2026-02-01T00:00:00Z   hourly  from 2026-02-01T00:00:00Z: rpm 64 in 1 records",
		"#USAGE#gpt#2028-02                monthly from 2028-02-01T00:00:00Z: rpm 128 in 1 records",
		"#USAGE#gpt#2028-02-29             daily   from 2028-02-29T00:00:00Z: rpm 128 in 1 records",
		"#USAGE#gpt#2028-02-29T23:00:00Z   hourly  from 2028-02-29T23:00:00Z: rpm 128 in 1 records",
		"#USAGE#gpt#2028-03                monthly from 2028-03-01T00:00:00Z: rpm 256 in 1 records",
		"#USAGE#gpt#2028-03-01             daily   from 2028-03-01T00:00:00Z: rpm 256 in 1 records",
		"#USAGE#gpt#2028-03-01T00:00:00Z   hourly  from 2028-03-01T00:00:00Z: rpm 256 in 1 records",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	t.Logf("%d records in %d snapshots, each in its own", len(records), len(got))
}

// outlived is the instant from which a snapshot is to be kept for so many days,
// in epoch seconds: when it was written, or when what is summed from it ends if that is
// later, an hour's day or a day's month.
func outlived(t testing.TB, s ledger.Snapshot) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s.Start)
	if err != nil {
		t.Fatal(err)
	}
	switch s.Window {
	case "hourly":
		at = at.Truncate(24*time.Hour).AddDate(0, 0, 1)
	case "daily", "monthly":
		at = at.AddDate(0, 0, 1-at.Day())
		at = at.AddDate(0, 1, 0)
	}
	return max(at.Unix(), now()/1000)
}
