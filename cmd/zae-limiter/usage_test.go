package main

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Usage is printed window by window and added up, in all three formats.
func TestUsage(t *testing.T) {
	s := newShell(t)
	for hour := range 24 {
		s.usage("hourly", time.Date(2024, 2, 1, hour, 0, 0, 0, time.UTC), int64(hour))
	}
	type window struct {
		Start, End string
		Tokens     map[string]int64
		Events     int
	}
	got := prints[[]window](s, "usage -e acme --from 2024-02-01T21:00:00Z --to 2024-02-01T23:00:00Z")
	if len(got) != 2 || got[1].Start != "2024-02-01T22:00:00Z" || got[1].End != "2024-02-01T23:00:00Z" ||
		got[1].Tokens["tpm"] != 22 || got[1].Events != 2 {
		t.Errorf("two hours: %+v", got)
	}
	type sum struct {
		Windows int
		Tokens  map[string]int64
		Mean    map[string]float64
	}
	added := prints[sum](s, "usage -r gpt-4 -w hourly --sum")
	if added.Windows != 24 || added.Tokens["rpm"] != 24 || added.Tokens["tpm"] != 276 || added.Mean["tpm"] != 11.5 {
		t.Errorf("sum: %+v", added)
	}
	s.says(0, "usage -e acme -r gpt-4 --to 2024-02-01T01:00:00Z", "acme gpt-4 hourly 2024-02-01T00:00:00Z rpm 1 2")
	out, _ := s.run(0, "usage", "-e", "acme", "-o", "csv")
	if all, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(all) != 1+2*24 {
		t.Errorf("csv: %d lines, %v", len(all), err)
	}
	s.says(0, "usage -e acme --plot --from 2024-02-01T22:00:00Z", "rpm of acme on gpt-4, hourly, tokens",
		"2024-02-01 23:00 "+strings.Repeat("█", 50)+" 23")
	s.says(2, "usage -e acme --plot -o json", "for people")
}

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
