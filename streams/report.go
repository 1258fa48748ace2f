package streams

import (
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// summarize counts the outcomes of the batch and finds where to resume it.
func summarize(batch stream.Batch, jobs []*function.Job, led *tally, units int64) function.Summary {
	s := function.Summary{
		Records: batch.Records, Changes: len(batch.Changes), Malformed: len(batch.Malformed),
	}
	notBegun := s.Count(jobs)
	s.Writes += int(led.caughtUp)
	written := map[string]int64{}
	var totals, kept int64
	for _, j := range jobs {
		written[j.What] += int64(j.Writes)
		switch {
		case j.What == jobUsage:
			totals++
		case j.What == jobMalformed && j.Done():
			kept++
		}
	}
	s.More = []function.Metric{
		{Name: "Totals", Log: "totals", Value: totals},
		{Name: "Ignored", Value: int64(batch.Ignored)},
		{Name: "Snapshots", Value: written[jobUsage] + led.caughtUp},
		{Name: function.MetricRefills, Value: written[jobRefill]},
		{Name: function.MetricShardSteps, Value: written[jobResharding]},
		{Name: "Lifetimes", Value: written[jobLifetime]},
		{Name: "Thresholds", Value: written[jobThreshold]},
		{Name: "Kept", Value: kept},
		{Name: "NotBegun", Value: notBegun},
		{Name: function.MetricWriteUnits, Log: "write_units", Value: units},
		{Name: "Pending", Log: "pending", Value: int64(len(led.state.Parts))},
		{Name: "Owed", Value: led.owed},
		{Name: "StateBytes", Value: int64(len(led.carried()))},
		{Name: "StateLost", Value: led.lost},
		{Name: "BeginningsUnknown", Value: led.unknown},
		{Name: function.MetricUsageLagMs, Value: led.lag(), Unit: "Milliseconds"},
	}
	return s
}
