package main

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A plot has more than one bar: windows of one length, and all entities that use a limit.
func TestPlotsCompare(t *testing.T) {
	var all []admin.Usage
	for _, w := range []admin.Window{admin.Hourly, admin.Daily, admin.Monthly} {
		for _, entity := range []string{"a", "b", "c"} {
			all = append(all, admin.Usage{Entity: entity, Resource: "api", Window: w,
				Start: time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC), Tokens: map[string]int64{"rpm": 1, "tpm": 2}})
		}
	}
	got := plotUsage(all)
	if strings.Count(got, ", hourly, tokens\n") != 2 || strings.Count(got, "█ ") != 6 ||
		!strings.Contains(got, "b on api  2024-02-01 00:00  █") {
		t.Errorf("%s", got)
	}
	check.Equal(t, plotUsage(all[:1]), "", "a plot of one bar each")
	check.Equal(t, strings.Count(plotUsage(all[3:]), ", daily, tokens\n"), 2)
}

func TestBars(t *testing.T) {
	got := bars([]bar{{"a", amount{16, false}}, {"bc", amount{8, false}}, {"", amount{1, false}},
		{"d", amount{}}, {"e", amount{-3, false}}}, 4)
	want := []string{
		"a   ████  16",
		"bc  ██    8",
		"    ▎     1",
		"d         0",
		"e         -3",
	}
	check.Slices(t, got, want, "bars")
	check.Equal(t, bars([]bar{{"x", amount{1, false}}, {"y", amount{1_000_000, false}}}, 10)[0], "x  ▏           1",
		"a value that is not zero is not seen")
}
