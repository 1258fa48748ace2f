package lambdaio

import (
	"context"
	"io"
	"log/slog"
)

// errorsLogged is how many failures of one batch are logged one by one.
const errorsLogged = 5

// Reporter tells operators what became of a batch.
type Reporter struct {
	Function string // name under which metrics are reported
	Log      *slog.Logger
	Metrics  io.Writer
}

// Failure is one thing of a batch that was not done.
type Failure struct {
	Message string // "snapshot not written"
	Attrs   []slog.Attr
}

// Report logs the first few failures and the number of the others, then the
// summary under the message, and writes the metric line, dated nowMs.
func (r Reporter) Report(ctx context.Context, nowMs int64, message string, failed []Failure, s Summary) {
	for _, f := range failed[:min(len(failed), errorsLogged)] {
		r.Log.LogAttrs(ctx, slog.LevelError, f.Message, f.Attrs...)
	}
	if n := len(failed); n > errorsLogged {
		r.Log.ErrorContext(ctx, "more not written", "failed", n-errorsLogged)
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, message, s.LogAttrs()...)
	if err := WriteMetrics(r.Metrics, r.Function, nowMs, s); err != nil {
		r.Log.ErrorContext(ctx, "metrics not written", "err", err)
	}
}
