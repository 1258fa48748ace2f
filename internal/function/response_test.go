package function

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// The response has Lambda's form, and names the lowest failed sequence number.
func TestResponsesHaveLambdasForm(t *testing.T) {
	for _, c := range []struct {
		fails []string
		state string
		want  string
	}{
		{nil, "", `{"batchItemFailures":[]}`},
		{nil, `{"a":[1]}`, `{"batchItemFailures":[],"state":{"a":[1]}}`},
		{[]string{"7"}, `{"a":[1]}`, `{"batchItemFailures":[{"itemIdentifier":"7"}],"state":{"a":[1]}}`},
		{[]string{"7"}, "", `{"batchItemFailures":[{"itemIdentifier":"7"}]}`},
		{[]string{"20", "100", "3"}, "", `{"batchItemFailures":[{"itemIdentifier":"3"}]}`},
		{[]string{"20", "", "3"}, "", `{"batchItemFailures":[{"itemIdentifier":""}]}`},
	} {
		var r Resume
		for _, f := range c.fails {
			r.Fail(f)
		}
		check.Equal(t, string(r.Response([]byte(c.state))), c.want, "fail %q, state %s", c.fails, c.state)
	}
}

func TestWithMarginEndsBeforeTheDeadline(t *testing.T) {
	deadline := time.Now().Add(time.Hour)
	parent, stop := context.WithDeadline(t.Context(), deadline)
	defer stop()
	ctx, cancel := WithMargin(parent, time.Minute)
	defer cancel()
	if got, _ := ctx.Deadline(); !got.Equal(deadline.Add(-time.Minute)) {
		t.Errorf("deadline %v, want one minute before %v", got, deadline)
	}
	tight, cancel := WithMargin(parent, 2*time.Hour)
	defer cancel()
	check.NoError(t, tight.Err(), "a margin longer than the time left leaves no time to work")
	if got, _ := tight.Deadline(); got.Before(deadline.Add(-30*time.Minute)) || got.After(deadline.Add(-25*time.Minute)) {
		t.Errorf("deadline %v, want half of the hour before %v", got, deadline)
	}
	free, cancel := WithMargin(context.Background(), time.Minute)
	defer cancel()
	if got, ok := free.Deadline(); ok {
		t.Errorf("deadline %v without a deadline", got)
	}
}

func summary() Summary {
	s := Summary{Records: 5, Changes: 3, Malformed: 1, Writes: 2, WritesFailed: 1,
		IteratorAgeMs: 1500, ElapsedMs: 12,
		More: []Metric{{Name: "Bytes", Log: "bytes", Value: 321, Unit: "Bytes"}, {Name: "Unlogged", Value: 7}}}
	s.Resume.Fail("42")
	return s
}

func TestMetricLine(t *testing.T) {
	var out bytes.Buffer
	check.Must(t, WriteMetrics(&out, `arch"iver`, 1700000000000, summary()))
	const want = `{"_aws":{"Timestamp":1700000000000,"CloudWatchMetrics":[{"Namespace":"ZaeLimiter",` +
		`"Dimensions":[["Function"]],"Metrics":[{"Name":"Changes","Unit":"Count"},` +
		`{"Name":"Malformed","Unit":"Count"},{"Name":"WritesFailed","Unit":"Count"}]}]},` +
		`"Function":"arch\"iver","Records":5,"Changes":3,"Malformed":1,` +
		`"Writes":2,"WritesFailed":1,"ElapsedMs":12,"IteratorAgeMs":1500,"Bytes":321,"Unlogged":7}` + "\n"
	if got := out.String(); got != want {
		t.Errorf("line\n%s\nwant\n%s", got, want)
	}
	if !json.Valid(out.Bytes()) {
		t.Error("line is not JSON")
	}

	out.Reset()
	check.Must(t, WriteMetrics(&out, "f", 0, Summary{IteratorAgeMs: -1}))
	const none = `{"_aws":{"Timestamp":0,"CloudWatchMetrics":[{"Namespace":"ZaeLimiter","Dimensions":[["Function"]],` +
		`"Metrics":[{"Name":"Changes","Unit":"Count"}]}]},"Function":"f","Records":0,"Changes":0,"Malformed":0,` +
		`"Writes":0,"WritesFailed":0,"ElapsedMs":0}` + "\n"
	if got := out.String(); got != none {
		t.Errorf("of an unknown age\n%s\nwant\n%s", got, none)
	}

	out.Reset()
	lag := Summary{More: []Metric{{Name: MetricUsageLagMs, Value: 7, Unit: "Milliseconds"}}}
	check.Must(t, WriteMetrics(&out, "f", 0, lag))
	for _, want := range []string{`{"Name":"UsageLagMs","Unit":"Milliseconds"}`, `"IteratorAgeMs":0,"UsageLagMs":7}`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %s", out.String(), want)
		}
	}
}

func TestLogAttrs(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	log.LogAttrs(t.Context(), slog.LevelInfo, "batch archived", summary().LogAttrs()...)
	const want = `level=INFO msg="batch archived" records=5 changes=3 malformed=1 writes=2 ` +
		"failed=1 elapsed_ms=12 bytes=321 resume_at=42\n"
	if got := out.String(); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	out.Reset()
	log.LogAttrs(t.Context(), slog.LevelInfo, "all done", Summary{}.LogAttrs()...)
	if strings.Contains(out.String(), "resume_at") {
		t.Errorf("nothing is to be resumed: %s", out.String())
	}
}
