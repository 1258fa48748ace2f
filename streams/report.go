package streams

import (
	"context"
	"log/slog"

	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// summarize counts what became of the batch and finds where to resume it.
func summarize(batch stream.Batch, jobs []*job, led *ledger) lambdaio.Summary {
	s := lambdaio.Summary{
		Records: batch.Records, Changes: len(batch.Changes), Malformed: len(batch.Malformed),
	}
	var written [parts]int64
	var totals, undone int64
	for _, j := range jobs {
		written[j.part] += int64(j.writes)
		if j.part != partMalformed {
			s.Writes += j.writes
		}
		if j.part == partUsage {
			totals++
		}
		switch {
		case !j.begun:
			undone++
		case j.err != nil:
			s.WritesFailed++
		default:
			continue
		}
		if j.owed(led) {
			s.Resume.Fail(j.resume)
		}
	}
	s.More = []lambdaio.Metric{
		{Name: "Totals", Log: "totals", Value: totals},
		{Name: "Ignored", Value: int64(batch.Ignored)},
		{Name: "Snapshots", Value: written[partUsage] + led.caughtUp},
		{Name: lambdaio.MetricRefills, Value: written[partRefill]},
		{Name: lambdaio.MetricShardSteps, Value: written[partResharding]},
		{Name: "Lifetimes", Value: written[partLifetime]},
		{Name: "Kept", Value: written[partMalformed]},
		{Name: "NotBegun", Value: undone},
		{Name: "Pending", Log: "pending", Value: int64(len(led.state.Parts))},
		{Name: "Owed", Value: led.owed},
		{Name: "StateBytes", Value: int64(len(led.carried())), Unit: "Bytes"},
		{Name: "StateLost", Value: led.lost},
		{Name: "UsageLagMs", Value: led.lag(), Unit: "Milliseconds"},
	}
	s.Writes += int(led.caughtUp)
	return s
}

// report logs malformed records that are kept, failed writes and the summary,
// and writes the metric line.
func (a *Aggregator) report(ctx context.Context, jobs []*job, s lambdaio.Summary) {
	var failed []lambdaio.Failure
	for _, j := range jobs {
		switch {
		case j.begun && j.err != nil:
			failed = append(failed, lambdaio.Failure{
				Message: j.part.String() + " not written", Attrs: append(j.attrs, slog.Any("err", j.err)),
			})
		case j.begun && j.part == partMalformed:
			a.log.LogAttrs(ctx, slog.LevelWarn, "malformed record kept", j.attrs...)
		}
	}
	out := lambdaio.Reporter{Function: a.function, Log: a.log, Metrics: a.metrics}
	out.Report(ctx, a.now(), "batch folded", failed, s)
}
