package main

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

const traceHead = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

func TestParseTrace(t *testing.T) {
	rows, err := parseTrace(strings.NewReader(traceHead +
		"2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51,0,0"))
	check.Must(t, err)
	want := []traceRow{{0, 374, 44}, {4314579 * time.Microsecond, 396, 109}, {4319410 * time.Microsecond, 0, 0}}
	check.MustEqual(t, len(rows), len(want), "rows")
	for i := range want {
		check.Equal(t, rows[i], want[i], "row %d", i)
	}
}

func TestParseTraceNamesLineAndColumn(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the file is empty"},
		{"other columns", "a,b,c\n", `line 1: columns ["a" "b" "c"], want ["TIMESTAMP"`},
		{"header only", traceHead, "no requests"},
		{"bad time", traceHead + "yesterday,1,1\n", `line 2: TIMESTAMP is "yesterday", want`},
		{"bad context", traceHead + "2023-11-16 18:15:46,many,1\n", `line 2: ContextTokens is "many", want`},
		{"negative", traceHead + "2023-11-16 18:15:46,1,-1\n", `line 2: GeneratedTokens is "-1", want`},
		{"too large", traceHead + "2023-11-16 18:15:46,1,99999999999\n", "GeneratedTokens"},
		{"too few fields", traceHead + "2023-11-16 18:15:46,1\n", "line 2"},
		{"backwards", traceHead + "2023-11-16 18:15:46,1,1\n2023-11-16 18:15:45,1,1\n", "line 3: TIMESTAMP"},
	} {
		check.Says(t, check.Err(parseTrace(strings.NewReader(c.in))), c.want, "%s", c.name)
	}
}

func TestReplayFillsTheTime(t *testing.T) {
	spread := func(n int, over time.Duration) []traceRow {
		rows := make([]traceRow, n)
		for i := range rows {
			rows[i] = traceRow{time.Duration(i) * over / time.Duration(n), 100, 10}
		}
		return rows
	}
	want := playRate * playTime.Seconds()
	for _, c := range []struct {
		name string
		rows []traceRow
	}{
		{"an hour, as fast as the rate allows", spread(20_000, time.Hour)},
		{"a short one, again and again", spread(1000, time.Hour)},
		{"one row", spread(1, time.Hour)},
		{"centuries", spread(2, 290*365*24*time.Hour)},
		{"a dense one, slowed down", spread(10_000, 10*time.Second)},
	} {
		got := replay(c.rows).requests
		n := len(got)
		if float64(n) < 0.98*want || float64(n) > 1.02*want+1 || got[n-1].at > playTime {
			t.Errorf("%s: %d requests, want %.0f", c.name, n, want)
		}
	}
}

func TestABadTraceEndsWithoutStartingAnything(t *testing.T) {
	for trace, want := range map[string]string{"/nowhere.csv": "/nowhere.csv", t.TempDir(): "is a directory"} {
		var out strings.Builder
		if code := run(t.Context(), trace, &out); code != 2 || !strings.HasPrefix(out.String(), "demo: FAIL TRACE") ||
			!strings.Contains(out.String(), want) {
			t.Errorf("status %d, output %q", code, out.String())
		}
	}
}
