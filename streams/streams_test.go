package streams

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestOptionsHaveTheDefaultsTheyName(t *testing.T) {
	agg, err := New(Options{DynamoDB: dynamodb.New(dynamodb.Options{}), Table: "limits"})
	check.Must(t, err)
	p := agg.conf
	if len(p.Windows) != 2 || p.Windows[0] != "hourly" || p.Windows[1] != "daily" || p.SnapshotTTLDays != 90 ||
		p.MaxShards != 32 || p.MergeAfter != 600_000 || agg.concurrency != 16 || agg.function != "aggregator" {
		t.Errorf("defaults %+v, concurrency %d, name %q", p, agg.concurrency, agg.function)
	}
	if agg.metrics != io.Discard || agg.log == nil {
		t.Errorf("it logs to %v, with metrics to %v", agg.log, agg.metrics)
	}
	var b bytes.Buffer
	own, err := New(Options{DynamoDB: dynamodb.New(dynamodb.Options{}), Table: "t", Metrics: &b})
	check.Must(t, err)
	check.Equal(t, own.metrics, io.Writer(&b), "metrics")
	if d := time.Since(time.UnixMilli(agg.now())); d < 0 || d > time.Minute {
		t.Errorf("the clock is off by %v", d)
	}
}

func TestOptionsReportAllMistakes(t *testing.T) {
	_, err := New(Options{
		Windows: []string{"hourly", "weekly"}, SnapshotTTLDays: 3651, MaxShards: 3, MergeAfter: time.Millisecond,
		Concurrency: -1, MaxWriteUnits: -1,
	})
	check.MustEqual(t, err != nil, true, "refused")
	want := `streams: DynamoDB=<nil>: want a client
streams: Table="": want the name of a table
streams: Windows=[hourly weekly]: want hourly, daily and monthly, each at most once
streams: SnapshotTTLDays=3651: want 1 to 3650
streams: MaxShards=3: want a power of two from 1 to 1024
streams: MergeAfter=1ms: want 1s to 24h
streams: Concurrency=-1: want 1 to 256
streams: MaxWriteUnits=-1: want 0 to 40000`
	check.Equal(t, err.Error(), want)
	_, err = New(Options{DynamoDB: dynamodb.New(dynamodb.Options{}), Table: "t", Windows: []string{"daily", "daily"}})
	if err == nil || strings.Count(err.Error(), "streams:") != 1 {
		t.Errorf("a window named twice: %v", err)
	}
}

// The bounds of the options are inclusive.
func TestBoundsOfOptions(t *testing.T) {
	for name, c := range map[string]struct {
		set             func(o *Options, n int)
		lowest, highest int
		below, above    int
	}{
		"days":    {func(o *Options, n int) { o.SnapshotTTLDays = n }, 1, 3650, -1, 3651},
		"shards":  {func(o *Options, n int) { o.MaxShards = n }, 1, 1024, -1, 2048},
		"seconds": {func(o *Options, n int) { o.MergeAfter = time.Duration(n) * time.Second }, 1, 86_400, -1, 86_401},
		"writes":  {func(o *Options, n int) { o.Concurrency = n }, 1, 256, -1, 257},
	} {
		for n, want := range map[int]bool{c.lowest: true, c.highest: true, c.below: false, c.above: false} {
			o := Options{DynamoDB: dynamodb.New(dynamodb.Options{}), Table: "t"}
			c.set(&o, n)
			if _, err := New(o); (err == nil) != want {
				t.Errorf("%d %s: %v", n, name, err)
			}
		}
	}
}

// MaxWriteUnits may be unset, or up to a table's default limit.
func TestBoundsOfMaxWriteUnits(t *testing.T) {
	for units, each := range map[int]time.Duration{
		0: 0, 1: time.Second, 40_000: 25 * time.Microsecond, 40_001: -1, -1: -1,
	} {
		a, err := New(Options{DynamoDB: dynamodb.New(dynamodb.Options{}), Table: "t", MaxWriteUnits: units})
		switch {
		case (err != nil) != (each < 0):
			t.Errorf("%d: %v", units, err)
		case err == nil && (a.pace != nil) != (each > 0):
			t.Errorf("%d: it has a bound: %v", units, a.pace != nil)
		case each > 0 && a.pace.each != each:
			t.Errorf("%d: one each %v", units, a.pace.each)
		}
	}
}
