package main

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// The mean of dollars is rounded, as no millionth can be divided.
func TestTheMeanOfDollars(t *testing.T) {
	tokens, mean := map[string]int64{"budget": 5, "tpm": 5}, map[string]float64{"budget": 5. / 3, "tpm": 5. / 3}
	got := summaryAnswer(admin.UsageSummary{Windows: 3, Tokens: tokens, Mean: mean})
	for i, want := range []string{"$0.000002", "1.7"} {
		check.Equal(t, text(got.rows.body[i][6]), want, "mean")
	}
}

// A window in which all was denied has a row too, of no limit.
func TestUsageOfDenialsAlone(t *testing.T) {
	got := usageAnswer([]admin.Usage{{Entity: "acme", Denied: 3}}).rows.body
	if len(got) != 1 || got[0][4] != "" || text(got[0][7]) != "3" {
		t.Errorf("rows %v", got)
	}
}
