package main

import (
	"strings"
	"testing"
	"time"
)

const traceHead = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

func TestParseTrace(t *testing.T) {
	rows, err := parseTrace(strings.NewReader(traceHead +
		"2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51,0,0"))
	if err != nil {
		t.Fatal(err)
	}
	want := []traceRow{{0, 374, 44}, {4314579 * time.Microsecond, 396, 109}, {4319410 * time.Microsecond, 0, 0}}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i := range want {
		if rows[i] != want[i] {
			t.Errorf("row %d: %+v, want %+v", i, rows[i], want[i])
		}
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
		if _, err := parseTrace(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestReplayFitsIntoTheTime(t *testing.T) {
	hour := func(n int) []traceRow {
		rows := make([]traceRow, n)
		for i := range rows {
			rows[i] = traceRow{time.Duration(i) * time.Hour / time.Duration(n), 100, 10}
		}
		return rows
	}
	for _, c := range []struct {
		name    string
		rows    []traceRow
		speedup float64
		whole   bool
	}{
		{"few rows: the whole trace", hour(1000), 0, true},
		{"many rows: as many as the rate allows", hour(100_000), 0, false},
		{"asked for more than fits", hour(1000), 1, false},
		{"one row", hour(1), 0, true},
	} {
		got := replay(c.rows, c.speedup)
		if n := len(got.requests); n == 0 || (n == len(c.rows)) != c.whole || got.requests[n-1].at > playTime {
			t.Errorf("%s: %d of %d requests, speed-up %v", c.name, n, len(c.rows), got.speedup)
		}
		if n := float64(len(got.requests)); c.speedup == 0 && n > 1.01*playRate*playTime.Seconds()+1 {
			t.Errorf("%s: %v requests are too many", c.name, n)
		}
	}
}
