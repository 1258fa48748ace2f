package function

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// MetricNamespace is the CloudWatch namespace of every metric of the
// functions. Alarms and dashboards refer to it by this constant.
const MetricNamespace = "ZaeLimiter"

// DimensionFunction is the only dimension of the metrics: the function's name.
const DimensionFunction = "Function"

// Names of the figures that every function writes, one value per invocation.
const (
	MetricRecords       = "Records"       // records delivered
	MetricChanges       = "Changes"       // records with work for the function
	MetricMalformed     = "Malformed"     // records that can never be decoded
	MetricWrites        = "Writes"        // writes known to have happened
	MetricWritesFailed  = "WritesFailed"  // writes that were refused or may have failed
	MetricIteratorAgeMs = "IteratorAgeMs" // age of the oldest record when the batch arrived
	MetricElapsedMs     = "ElapsedMs"     // from arrival of the batch to its report

	// Only of the aggregator.
	MetricRefills    = "Refills"    // buckets refilled
	MetricShardSteps = "ShardSteps" // steps of splits and merges
	MetricUsageLagMs = "UsageLagMs" // age of the oldest record whose usage is not yet written
	MetricWriteUnits = "WriteUnits" // of the table, as counted by DynamoDB
)

// Published reports whether a figure of an invocation becomes a metric. Each metric costs about 30
// cents a month, for the hours in which it is reported. So only figures that an alarm or the
// dashboard shows are metrics, and one that is usually zero is reported only if it is not. All
// figures are in the log line, where CloudWatch Logs Insights finds them.
func Published(name string, value int64) bool {
	switch name {
	case MetricChanges:
		return true
	case MetricMalformed, MetricWritesFailed, MetricRefills, MetricShardSteps, MetricUsageLagMs, MetricWriteUnits:
		return value != 0
	}
	return false
}

// Summary is the result of one invocation. Its log line and its metric line are made from the same
// value, so they always agree.
type Summary struct {
	Records      int
	Changes      int
	Malformed    int
	Writes       int
	WritesFailed int

	// IteratorAgeMs is negative if no record has a creation time; the metric is then left out.
	IteratorAgeMs int64
	ElapsedMs     int64

	// Resume is where to resume the batch. Its zero value acknowledges the whole batch.
	Resume Resume

	// More is figures of one function only.
	More []Metric
}

// Count adds the outcomes of jobs, and returns how many were not begun.
func (s *Summary) Count(jobs []*Job) (notBegun int64) {
	for _, j := range jobs {
		s.Writes += j.Writes
		switch {
		case j.Done():
			continue
		case j.Begun:
			s.WritesFailed++
		default:
			notBegun++
		}
		if j.Required {
			s.Resume.Fail(j.Resume)
		}
	}
	return notBegun
}

// Timed records when the work on the batch began and ended, and when its oldest record was created
// (0: unknown), all in epoch milliseconds.
func (s *Summary) Timed(start, end, oldest int64) {
	s.ElapsedMs, s.IteratorAgeMs = end-start, -1
	if oldest > 0 {
		s.IteratorAgeMs = max(0, start-oldest)
	}
}

// Metric is a named figure of one function: a count, unless Unit is set. Log is its key in the log
// line; if it is empty, the line leaves it out.
type Metric struct {
	Name  string
	Log   string
	Value int64
	Unit  string // a CloudWatch unit; empty means Count
}

// figures returns all figures, in their order in both lines.
func (s Summary) figures() []Metric {
	out := []Metric{
		{Name: MetricRecords, Log: "records", Value: int64(s.Records)},
		{Name: MetricChanges, Log: "changes", Value: int64(s.Changes)},
		{Name: MetricMalformed, Log: "malformed", Value: int64(s.Malformed)},
		{Name: MetricWrites, Log: "writes", Value: int64(s.Writes)},
		{Name: MetricWritesFailed, Log: "failed", Value: int64(s.WritesFailed)},
		{Name: MetricElapsedMs, Log: "elapsed_ms", Value: s.ElapsedMs},
	}
	if s.IteratorAgeMs >= 0 {
		out = append(out, Metric{Name: MetricIteratorAgeMs, Value: s.IteratorAgeMs})
	}
	return append(out, s.More...)
}

// LogAttrs returns the attributes of the summary line. The resume point is included only if the
// batch must be resumed.
func (s Summary) LogAttrs() (attrs []slog.Attr) {
	for _, m := range s.figures() {
		if m.Log != "" {
			attrs = append(attrs, slog.Int64(m.Log, m.Value))
		}
	}
	if at, ok := s.Resume.At(); ok {
		attrs = append(attrs, slog.String("resume_at", at))
	}
	return attrs
}

// WriteMetrics writes the summary as one line in CloudWatch's embedded metric
// format, with one call of w.Write, dated nowMs (epoch milliseconds). Every figure
// is in it; [Published] ones are also declared as metrics. The same summary and
// instant always give the same bytes.
func WriteMetrics(w io.Writer, function string, nowMs int64, s Summary) error {
	if _, err := w.Write(metricLine(function, nowMs, s.figures())); err != nil {
		return fmt.Errorf("write metrics of %q: %w", function, err)
	}
	return nil
}

func metricLine(function string, nowMs int64, figures []Metric) []byte {
	type definition struct {
		Name string
		Unit string
	}
	type directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []definition
	}
	d := directive{Namespace: MetricNamespace, Dimensions: [][]string{{DimensionFunction}}}
	var values bytes.Buffer
	for _, m := range figures {
		unit := m.Unit
		if unit == "" {
			unit = "Count"
		}
		if Published(m.Name, m.Value) {
			d.Metrics = append(d.Metrics, definition{m.Name, unit})
		}
		fmt.Fprintf(&values, ",%s:%d", inJSON(m.Name), m.Value)
	}
	return fmt.Appendf(nil, `{"_aws":{"Timestamp":%d,"CloudWatchMetrics":%s},"%s":%s%s}`+"\n",
		nowMs, inJSON([]directive{d}), DimensionFunction, inJSON(function), values.Bytes())
}

// inJSON returns texts, and values made of texts, as JSON, which cannot fail.
func inJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("function: bug: " + err.Error())
	}
	return b
}
