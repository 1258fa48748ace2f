package main

import (
	"os"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestEveryAlarmIsInTheOperationsPage looks for each alarm where an on-call
// person will.
func TestEveryAlarmIsInTheOperationsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	check.Must(t, err)
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
