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

func TestReplayFillsTheTime(t *testing.T) {
	spread := func(n int, over time.Duration) []traceRow {
		rows := make([]traceRow, n)
		for i := range rows {
			rows[i] = traceRow{time.Duration(i) * over / time.Duration(n), 100, 10}
		}
		return rows
	}
	at200 := int(playRate * playTime.Seconds())
	for _, c := range []struct {
		name    string
		rows    []traceRow
		speedup float64
		want    int // requests, give or take 2 %; 0: an error
	}{
		{"an hour, as fast as the rate allows", spread(20_000, time.Hour), 0, at200},
		{"a short one, again and again", spread(1000, time.Hour), 0, at200},
		{"one row", spread(1, time.Hour), 0, at200},
		{"a dense one, slowed down", spread(10_000, 10*time.Second), 0, at200},
		{"as recorded", spread(1000, time.Second*10), 1, 100 * int(playTime.Seconds())},
		{"too fast", spread(20_000, time.Hour), 1000, 0},
	} {
		got, err := replay(c.rows, c.speedup)
		if c.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "SPEEDUP is 1000") || !strings.Contains(err.Error(), "up to 360") {
				t.Errorf("%s: %v, want an error that says what is accepted", c.name, err)
			}
			continue
		}
		n := len(got.requests)
		if err != nil || float64(n) < 0.98*float64(c.want) || float64(n) > 1.02*float64(c.want)+1 ||
			got.requests[n-1].at > playTime {
			t.Errorf("%s: %d requests, %v, want %d", c.name, n, err, c.want)
		}
	}
}
