package function

import (
	"context"
	"io"
	"log/slog"
)

// errorsLogged is how many failures of one batch are logged individually.
const errorsLogged = 5

// Reporter reports the result of a batch to operators.
type Reporter struct {
	Function string // name under which metrics are reported
	Log      *slog.Logger
	Metrics  io.Writer
}

// Report logs the stored malformed records, the first few failed jobs and the number of the others.
// Then it logs the summary under the message, and writes the metric line, dated nowMs.
func (r Reporter) Report(ctx context.Context, nowMs int64, message string, jobs []*Job, s Summary) {
	failed := 0
	for _, j := range jobs {
		switch {
		case j.Done() && j.Malformed != "":
			r.Log.LogAttrs(ctx, slog.LevelWarn, "malformed record kept", append(j.Attrs, slog.String("err", j.Malformed))...)
		case j.Err != nil:
			if failed++; failed <= errorsLogged {
				r.Log.LogAttrs(ctx, slog.LevelError, j.What+" not written", append(j.Attrs, slog.Any("err", j.Err))...)
			}
		}
	}
	if failed > errorsLogged {
		r.Log.ErrorContext(ctx, "more not written", "failed", failed-errorsLogged)
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, message, s.LogAttrs()...)
	if err := WriteMetrics(r.Metrics, r.Function, nowMs, s); err != nil {
		r.Log.ErrorContext(ctx, "metrics not written", "err", err)
	}
}
