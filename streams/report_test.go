package streams

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/pricing"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// The log line of each batch has its work, and the usage carried on.
func TestBatchesLogTheirWork(t *testing.T) {
	r := newRig(t)
	log := r.logged()
	r.take("a", 0, 1, 1)
	r.take("b", 0, 1, 1)
	all := records(r.since(0))
	r.handle(windowed(all[:1], nil, false))
	r.handle(streamtest.PayloadOf(all...))
	for i, want := range []string{
		"records=1 changes=1 malformed=0 writes=0 failed=0 elapsed_ms=0 totals=0 write_units=0 pending=1",
		"records=2 changes=2 malformed=0 writes=4 failed=0 elapsed_ms=0 totals=2 write_units=4 pending=0",
	} {
		_, got, _ := strings.Cut(strings.Split(log.String(), "\n")[i], `msg="batch folded" `)
		check.Equal(t, got, want, "batch %d", i+1)
	}
}

// An invocation logs as many bytes as the cost computation assumes, within a quarter.
func TestBatchesLogAsMuchAsTheCostAssumes(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		r.take(fmt.Sprint("customer-", i), 0, 1, 350)
	}
	var lines bytes.Buffer
	r.agg.log = slog.New(slog.NewJSONHandler(&lines, nil)).With("requestId", "c4ca4238-a0b9-2382-0dcc-509a6f75849b")
	r.handle(r.payload())
	if got := lines.Len() + r.metrics.Len(); got < pricing.BytesLogged*3/4 || got > pricing.BytesLogged*5/4 {
		t.Errorf("an invocation logs %d bytes, the computation has %d:\n%s%s", got, pricing.BytesLogged, &lines, &r.metrics)
	}
}

// The results of a batch are reported by name: jobs by kind, jobs not begun, the writes of longer
// windows, and the usage carried on.
func TestReportsNameJobsAndLeftovers(t *testing.T) {
	r := newRig(t)
	job := func(what string, writes int, begun bool, err error) *function.Job {
		return &function.Job{What: what, Writes: writes, Begun: begun, Err: err}
	}
	jobs := []*function.Job{
		job(jobUsage, 2, true, nil), job(jobUsage, 3, true, errDown), job(jobUsage, 0, false, nil),
		job(jobMalformed, 0, true, nil), job(jobMalformed, 0, true, errDown), job(jobMalformed, 0, false, nil),
		job(jobRefill, 1, true, nil), job(jobRefill, 1, true, nil), job(jobResharding, 7, true, nil),
		job(jobLifetime, 1, true, nil), job(jobThreshold, 4, true, nil), job(jobThreshold, 1, true, nil),
	}
	led := &tally{agg: r.agg, owed: 17, lost: 1, unknown: 21, caughtUp: 9}
	led.tumbling.On = true
	led.state.Parts = []usage.Part{{Bucket: gpt("e"), Start: t0 - t0%3_600_000,
		Oldest: t0 - 1234, Runs: []usage.Run{{}}}}
	batch := stream.Batch{Records: 40, Changes: make([]stream.Change, 33), Malformed: make([]stream.Malformed, 3),
		Ignored: 4}
	s := summarize(batch, jobs, led, 123)
	if s.Records != 40 || s.Changes != 33 || s.Malformed != 3 || s.Writes != 20+9 || s.WritesFailed != 2 {
		t.Errorf("%+v", s)
	}
	got := map[string]int64{}
	for _, m := range s.More {
		got[m.Name] = m.Value
		if m.Name == "UsageLagMs" && m.Unit != "Milliseconds" {
			t.Errorf("%+v", m)
		}
	}
	want := map[string]int64{"Totals": 3, "Ignored": 4, "Snapshots": 5 + 9, "Refills": 2, "ShardSteps": 7, "Lifetimes": 1,
		"Thresholds": 5, "Kept": 1, "NotBegun": 2, "WriteUnits": 123, "Pending": 1, "Owed": 17,
		"StateBytes": int64(len(led.state.JSON())), "StateLost": 1, "BeginningsUnknown": 21, "UsageLagMs": 1234}
	check.Deep(t, got, want)
	led.tumbling.On, led.state.Parts = false, nil
	for _, m := range summarize(batch, nil, led, 0).More {
		if (m.Name == "StateBytes" || m.Name == "UsageLagMs" || m.Name == "Pending") && m.Value != 0 {
			t.Errorf("nothing is carried on, but %s is %d", m.Name, m.Value)
		}
	}
	r.now = t0 - 5000 // behind the clock of the records
	led.state.Parts = []usage.Part{{Oldest: t0}}
	check.Equal(t, led.lag(), 0, "the lag of future usage")
}
