package streams

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bill"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

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
