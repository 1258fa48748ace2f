package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// reportMargin is the time kept back from the deadline for the report.
const reportMargin = time.Second

// handler folds batches into the table. It keeps nothing from one batch to the
// next and is safe for concurrent use.
type handler struct {
	store       store.Store
	deadLetters *deadLetters // nil: malformed records are reported as not done
	plan        usage.Config
	concurrency int
	now         func() int64 // epoch milliseconds
	function    string       // name under which metrics are reported
	log         *slog.Logger
	metrics     io.Writer
}

// Handle does what the changes in one stream payload ask for and returns the
// partial batch response. A record is acknowledged only if everything that came
// of it is written, needs no writing any more, or is an update of a bucket that
// DynamoDB never takes (see forgone). What is refused, unanswered or not begun
// when the deadline nears is reported as not done: the response names the lowest
// sequence number of it. Delivering a batch again, whole or in parts, counts
// nothing twice.
//
// An error means that the payload is no stream payload.
func (h *handler) Handle(ctx context.Context, payload []byte) ([]byte, error) {
	start := h.now()
	batch, err := stream.Decode(payload)
	if err != nil {
		return nil, err
	}
	plan := usage.Decide(usage.Fold(batch.Changes), start, h.plan)

	within, cancel := lambdaio.WithMargin(ctx, reportMargin)
	defer cancel()
	jobs := h.jobs(plan, batch.Malformed)
	h.run(within, jobs)

	s := summarize(batch, jobs)
	s.IteratorAgeMs = -1
	if batch.Oldest > 0 {
		s.IteratorAgeMs = max(0, start-batch.Oldest)
	}
	s.ElapsedMs = h.now() - start
	h.report(ctx, jobs, s)
	return s.Resume.Response().Bytes(), nil
}

// summarize counts what became of the batch and finds where to resume it.
func summarize(batch stream.Batch, jobs []*job) lambdaio.Summary {
	s := lambdaio.Summary{
		Records: batch.Records, Changes: len(batch.Changes), Malformed: len(batch.Malformed),
	}
	var written [kinds]int64
	var totals, undone int64
	for _, j := range jobs {
		written[j.kind] += int64(j.writes)
		if j.kind != kindMalformed {
			s.Writes += j.writes
		}
		if j.kind == kindTotal {
			totals++
		}
		switch {
		case !j.begun:
			undone++
			s.Resume.Fail(j.resume)
		case j.forgone():
			s.WritesFailed++
		case j.err != nil:
			s.WritesFailed++
			s.Resume.Fail(j.resume)
		}
	}
	s.More = []lambdaio.Metric{
		{Name: "Totals", Log: "totals", Value: totals},
		{Name: "Ignored", Value: int64(batch.Ignored)},
		{Name: "Snapshots", Value: written[kindTotal]},
		{Name: lambdaio.MetricRefills, Value: written[kindRefill]},
		{Name: lambdaio.MetricShardSteps, Value: written[kindSplit]},
		{Name: "Lifetimes", Value: written[kindLifetime]},
		{Name: "Kept", Value: written[kindMalformed]},
		{Name: "NotBegun", Value: undone},
	}
	return s
}

// report logs malformed records that are kept, failed writes and the summary,
// and writes the metric line.
func (h *handler) report(ctx context.Context, jobs []*job, s lambdaio.Summary) {
	var failed []lambdaio.Failure
	for _, j := range jobs {
		switch {
		case j.begun && j.err != nil:
			failed = append(failed, lambdaio.Failure{
				Message: j.kind.String() + " not written", Attrs: append(j.attrs, slog.Any("err", j.err)),
			})
		case j.begun && j.kind == kindMalformed:
			h.log.LogAttrs(ctx, slog.LevelWarn, "malformed record kept", j.attrs...)
		}
	}
	out := lambdaio.Reporter{Function: h.function, Log: h.log, Metrics: h.metrics}
	out.Report(ctx, h.now(), "batch folded", failed, s)
}
