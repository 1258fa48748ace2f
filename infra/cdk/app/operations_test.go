package main

import (
	"os"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
)

// TestEveryAlarmIsInTheOperationsPage looks for each alarm where an on-call
// person will.
func TestEveryAlarmIsInTheOperationsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for id := range golden.ofType("AWS::CloudWatch::Alarm") {
		name, _, _ := strings.Cut(id, "Alarm")
		said := name
		for _, function := range []string{"Aggregator", "Archiver"} {
			if rest, ok := strings.CutPrefix(name, function); ok && name != "AggregatorDeadMapping" {
				said = "…" + rest
			}
		}
		if rest, ok := strings.CutPrefix(name, "GSI"); ok {
			said = "GSI1…4" + rest[1:]
		}
		if !strings.Contains(string(page), "`"+said+"`") {
			t.Errorf("docs/operations.md does not say what %s means: it has no `%s`", name, said)
		}
	}
}

// TestFixedCost computes what the stack costs a month without a request: ten
// cents for each metric of an alarm, thirty for each metric of our own that is
// reported whenever a function runs or buckets are refilled.
func TestFixedCost(t *testing.T) {
	metrics := 0
	for _, a := range golden.ofType("AWS::CloudWatch::Alarm") {
		n := 1
		if list, ok := a.Properties["Metrics"].([]any); ok {
			n = len(list) - 1 // one is the expression
		}
		metrics += n
	}
	steady := 0
	for _, name := range []string{lambdaio.MetricRecords, lambdaio.MetricChanges, lambdaio.MetricWrites,
		lambdaio.MetricElapsedMs, "Ignored"} {
		if lambdaio.Published(name, 0) {
			steady++
		}
	}
	cents := 10*metrics + 30*(2*steady+2) // of both functions, and refills and write units of the aggregator
	t.Logf("fixed cost: %d metrics of alarms, %d of our own, %d.%02d dollars a month", metrics, 2*steady+2, cents/100,
		cents%100)
	if cents > 500 {
		t.Errorf("%d cents, want at most 500", cents)
	}
}
