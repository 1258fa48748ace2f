package function

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// full is a writer without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

// A batch logs its kept malformed records, its first five failures, the number of further ones, and
// the summary. It also logs a metric line that cannot be written.
func TestBatchesAreReported(t *testing.T) {
	kept := func(malformed string, err error) *Job {
		return &Job{What: "usage", Malformed: malformed, Attrs: []slog.Attr{slog.String("key", "k")}, Begun: true, Err: err}
	}
	lost := errors.New("lost")
	failures := func(n int) (out []*Job) {
		for range n {
			out = append(out, kept("", lost))
		}
		return out
	}
	const one = "ERROR usage not written key=k err=lost\n"
	for _, c := range []struct {
		name string
		jobs []*Job
		want string
	}{
		{"nothing", nil, ""},
		{"done", []*Job{kept("", nil)}, ""},
		{"a malformed record is kept", []*Job{kept("bad", nil)}, "WARN malformed record kept key=k err=bad\n"},
		{"one that could not be kept", []*Job{kept("bad", lost)}, one},
		{"five failures", failures(5), strings.Repeat(one, 5)},
		{"seven failures", failures(7), strings.Repeat(one, 5) + "ERROR more not written failed=2\n"},
	} {
		var out, metrics bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		Reporter{Function: "f", Log: log, Metrics: &metrics}.Report(t.Context(), 7, "batch done", c.jobs, Summary{})
		got := plain(out.String())
		if got != c.want+"INFO batch done\n" || !strings.Contains(metrics.String(), `"Timestamp":7`) {
			t.Errorf("%s:\n%swant\n%s, and metrics %s", c.name, got, c.want, metrics.String())
		}
	}
	var out bytes.Buffer
	Reporter{Function: "f", Log: slog.New(slog.NewTextHandler(&out, nil)), Metrics: full{}}.
		Report(t.Context(), 7, "batch done", nil, Summary{})
	const want = "INFO batch done\nERROR metrics not written err=write metrics of \\f\\: no space\n"
	if got := plain(out.String()); got != want {
		t.Errorf("%swant\n%s", got, want)
	}
}

// plain keeps the level, the message and some attributes of log lines.
func plain(lines string) (out string) {
	for line := range strings.Lines(lines) {
		_, rest, _ := strings.Cut(line, "level=")
		rest = strings.NewReplacer("msg=", "", `"`, "").Replace(strings.TrimSuffix(rest, "\n"))
		if i := strings.Index(rest, " records="); i >= 0 {
			rest = rest[:i]
		}
		out += rest + "\n"
	}
	return out
}
