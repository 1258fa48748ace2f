package start

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// passes reports whether Lambda sends a line to the log, as AWS documents its filter: a line that
// names no level, or no valid time, is INFO.
func passes(t *testing.T, set string, line []byte) bool {
	t.Helper()
	var is struct{ Level, Timestamp string }
	check.Must(t, json.Unmarshal(line, &is))
	ranks := map[string]int{"TRACE": 1, "DEBUG": 2, "INFO": 3, "WARN": 4, "ERROR": 5, "FATAL": 6}
	if _, err := time.Parse(time.RFC3339, is.Timestamp); err != nil || ranks[is.Level] == 0 {
		is.Level = "INFO"
	}
	return ranks[is.Level] >= ranks[set]
}

// level is an environment whose log is set to that level.
func level(set string) func(string) string {
	return func(name string) string { return map[string]string{"AWS_LAMBDA_LOG_LEVEL": set}[name] }
}

// Alarms see malformed records and failed writes whatever the log is set to. Lines that need no
// level stay as they are.
func TestMetricsPassAtEveryLogLevel(t *testing.T) {
	var plain bytes.Buffer
	check.Must(t, function.WriteMetrics(&plain, "f", 7, function.Summary{Malformed: 1}))
	for _, set := range []string{"", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"} {
		var out bytes.Buffer
		w := Metrics(level(set), &out)
		check.Must(t, function.WriteMetrics(w, "f", 7, function.Summary{Malformed: 1}))
		if !passes(t, set, out.Bytes()) {
			t.Errorf("%s drops %s", set, out.Bytes())
		}
		if rest := plain.Bytes()[1:]; !bytes.HasSuffix(out.Bytes(), rest) ||
			passes(t, set, plain.Bytes()) && out.String() != plain.String() {
			t.Errorf("%s: %s of %s", set, out.Bytes(), plain.Bytes())
		}
	}
}

type calls []int

func (c *calls) Write(line []byte) (int, error) {
	*c = append(*c, len(line))
	return len(line), nil
}

// A line goes out in one call, so that no other one gets into it, and counts as it came in.
func TestMetricLinesAreWhole(t *testing.T) {
	const line = `{"a":1}` + "\n"
	var c calls
	if n, err := Metrics(level("WARN"), &c).Write([]byte(line)); n != len(line) || err != nil || len(c) != 1 {
		t.Errorf("%d of %d bytes, in calls of %v: %v", n, len(line), c, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestMetricsReportFailedWrites(t *testing.T) {
	w := Metrics(level("WARN"), full{})
	check.Is(t, function.WriteMetrics(w, "f", 7, function.Summary{}), io.ErrShortWrite, "error")
}
