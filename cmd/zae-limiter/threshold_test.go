package main

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// Thresholds are listed from an instant on and before another one.
func TestThresholdsOfATime(t *testing.T) {
	s := newShell(t)
	s.stores(ledger.Threshold{
		Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4", Limit: "budget", Percent: 80,
		Spent: 4, Quota: 5, End: time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), At: "2024-02-01T22:10:00Z",
	}.Item())
	for times, want := range map[string]string{
		"": "budget", "--from 2024-02-01T22:10:00Z": "budget", "--from 2024-02-01T22:10:01Z": "nothing there",
		"--to 2024-02-01T22:10:00Z": "nothing there", "--to 2024-02-02": "budget",
	} {
		s.says(0, "thresholds -e acme "+times, want)
	}
}
