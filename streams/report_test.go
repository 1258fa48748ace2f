package streams

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bill"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

// The log says of each batch what was done of it, and what is carried on.
func TestWhatTheLogSaysOfABatch(t *testing.T) {
	r := newRig(t)
	var log bytes.Buffer
	r.agg.log = slog.New(slog.NewTextHandler(&log, nil))
	r.take("a", 0, 1, 1)
	r.take("b", 0, 1, 1)
	all := records(r.since(0))
	r.handle(windowed(all[:1], nil, false))
	r.handle(streamtest.PayloadOf(all...))
	for i, want := range []string{
		"records=1 changes=1 malformed=0 writes=0 failed=0 elapsed_ms=0 totals=0 write_units=0 pending=1",
		"records=2 changes=2 malformed=0 writes=4 failed=0 elapsed_ms=0 totals=2 write_units=4 pending=0",
	} {
		line := strings.Split(log.String(), "\n")[i]
		if _, got, _ := strings.Cut(line, `msg="batch folded" `); got != want {
			t.Errorf("batch %d: %s, want %s", i+1, got, want)
		}
	}
}

// An invocation logs as many bytes as the bill says, within a quarter.
func TestABatchLogsWhatTheBillHas(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		r.take(fmt.Sprint("customer-", i), 0, 1, 350)
	}
	var lines bytes.Buffer
	r.agg.log = slog.New(slog.NewJSONHandler(&lines, nil)).With("requestId", "c4ca4238-a0b9-2382-0dcc-509a6f75849b")
	r.handle(streamtest.PayloadOf(records(r.since(0))...))
	if got := lines.Len() + r.metrics.Len(); got < bill.BytesLogged*3/4 || got > bill.BytesLogged*5/4 {
		t.Errorf("an invocation logs %d bytes, the bill has %d:\n%s%s", got, bill.BytesLogged, &lines, &r.metrics)
	}
}
