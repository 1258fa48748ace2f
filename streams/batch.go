package streams

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// reportMargin is the time kept back from the deadline for the report.
const reportMargin = time.Second

// errNotCounted fails an invocation that had to count everything and could not:
// Lambda repeats it with the same state.
var errNotCounted = errors.New("usage not counted")

// Invoke does what the changes in one stream payload ask for and returns the
// partial batch response. A record is acknowledged only if its usage is counted,
// or carried on in the state of the tumbling window. What is refused, unanswered
// or not begun when the deadline nears is reported as not done: the response names
// the lowest sequence number of it. Refills, shard steps and lifetimes are tried
// and never reported: nobody is owed them. Delivering a batch again, whole or in
// parts, counts nothing twice.
//
// An error means that the payload is no stream payload, or that a tumbling window
// ends and not all of it is counted. Work begins until a second before the deadline
// of ctx. It blocks until nothing is in flight any more.
//
// The method makes an Aggregator a handler of the Lambda library.
func (a *Aggregator) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	start := a.now()
	batch, err := stream.Decode(payload)
	if err != nil {
		return nil, err
	}
	within, cancel := lambdaio.WithMargin(ctx, reportMargin)
	defer cancel()
	buckets := usage.Fold(batch.Changes)
	led := a.newLedger(ctx, batch, buckets)
	jobs := a.jobs(led, buckets, usage.Decide(buckets, start, a.conf), batch.Malformed)
	a.run(within, jobs)
	err = led.close(within)

	s := summarize(batch, jobs, led)
	s.IteratorAgeMs = -1
	if batch.Oldest > 0 {
		s.IteratorAgeMs = max(0, start-batch.Oldest)
	}
	s.ElapsedMs = a.now() - start
	a.report(ctx, jobs, s)
	if err != nil {
		return nil, err
	}
	return s.Resume.Response().With(led.carried()).Bytes(), nil
}

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
