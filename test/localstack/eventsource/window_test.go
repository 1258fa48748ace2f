package eventsource

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// counting is a function whose state is the number of records so far.
func counting(answers map[int]string) function {
	n, calls := 0, 0
	return func(batch []Record) (string, bool) {
		calls++
		if a, ok := answers[calls]; ok {
			return a, a == "crash"
		}
		n += len(batch)
		return fmt.Sprintf(`{"state":{"n":%d},"batchItemFailures":[]}`, n), false
	}
}

func TestTumblingWindows(t *testing.T) {
	large := `{"state":{"x":"` + strings.Repeat("x", maxState) + `"}}`
	for _, tt := range []struct {
		name    string
		at      []int64 // seconds of the records
		answers map[int]string
		partial bool
		want    string
	}{
		{"records of one window share a state, its end has an invocation", []int64{1, 2, 3, 4, 5, 70}, nil, false,
			`1970-01-01T00:00:00 ; 1-4 ok; 1970-01-01T00:00:00 {"n":4}; 5 ok; 1970-01-01T00:00:00 {"n":5}; final;  ok; ` +
				`1970-01-01T00:01:00 ; 6 ok; 1970-01-01T00:01:00 {"n":6}; final;  ok`},
		{"an answer without state fails", []int64{1}, map[int]string{1: `{"batchItemFailures":[]}`}, false,
			`1970-01-01T00:00:00 ; 1 failed; 1970-01-01T00:00:00 ; 1 ok; 1970-01-01T00:00:00 {"n":1}; final;  ok`},
		{"the end is repeated until it succeeds, with the same state", []int64{1, 61},
			map[int]string{2: "crash", 3: "crash", 4: "crash", 5: "{}"}, false,
			`1970-01-01T00:00:00 ; 1 ok; 1970-01-01T00:00:00 {"n":1}; final;  failed; 1970-01-01T00:00:00 {"n":1}; final;  failed; ` +
				`1970-01-01T00:00:00 {"n":1}; final;  failed; 1970-01-01T00:00:00 {"n":1}; final;  failed; 1970-01-01T00:00:00 {"n":1}; final;  ok; ` +
				`1970-01-01T00:01:00 ; 2 ok; 1970-01-01T00:01:00 {"n":2}; final;  ok`},
		{"a state that is too large ends the window early", []int64{1, 2, 3, 4, 5}, map[int]string{1: large}, false,
			`1970-01-01T00:00:00 ; 1-4 ok; 1970-01-01T00:00:00 ; final; early;  ok; 1970-01-01T00:00:00 ; 5 ok; 1970-01-01T00:00:00 {"n":1}; final;  ok`},
		{"a partial failure, the state before it", []int64{1, 2},
			map[int]string{1: `{"state":{"n":2},"batchItemFailures":[{"itemIdentifier":"2"}]}`}, false,
			`1970-01-01T00:00:00 ; 1,2 failed; 1970-01-01T00:00:00 ; 2 ok; 1970-01-01T00:00:00 {"n":1}; final;  ok`},
		{"a partial failure, the state with it", []int64{1, 2},
			map[int]string{1: `{"state":{"n":2},"batchItemFailures":[{"itemIdentifier":"2"}]}`}, true,
			`1970-01-01T00:00:00 ; 1,2 failed; 1970-01-01T00:00:00 {"n":2}; 2 ok; 1970-01-01T00:00:00 {"n":1}; final;  ok`},
		{"bisecting stays in the window", []int64{1, 2}, map[int]string{1: "crash"}, false,
			`1970-01-01T00:00:00 ; 1,2 failed; 1970-01-01T00:00:00 ; 1 ok; 1970-01-01T00:00:00 {"n":1}; 2 ok; 1970-01-01T00:00:00 {"n":2}; final;  ok`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &lane{settings: Settings{BatchSize: 4, Factor: 1, MaxRetries: 2, MaxAge: -1, Report: true, Bisect: true,
				Tumbling: time.Minute, PartialState: tt.partial}}
			for i, at := range tt.at {
				l.add(0, Record{Sequence: fmt.Sprint(i + 1), Created: at * 1000, Body: []byte("{}")})
			}
			check.Equal(t, drive(l, counting(tt.answers), 0), tt.want)
		})
	}
}

// A mapping that replaces another may find the other's windows, or none.
func TestWindowsOutliveTheirMapping(t *testing.T) {
	for _, inherited := range []bool{true, false} {
		old := &Mapping{lanes: []*worker{{lane: &lane{}}, {lane: &lane{}, part: 1}}}
		old.lanes[1].lane.window = tumblingWindow{start: 60_000, open: true, state: []byte(`{"n":7}`)}
		next := &Mapping{lanes: []*worker{{lane: &lane{}}, {lane: &lane{}, part: 1}}}
		if inherited {
			next.inherit(old)
		}
		check.Equal(t, next.Windows(), map[bool]int{true: 1}[inherited], "inherited %v: open", inherited)
		got := next.lanes[1].lane.window
		if got.open != inherited || inherited && (string(got.state) != `{"n":7}` || got.start != 60_000) {
			t.Errorf("inherited %v: %+v", inherited, got)
		}
	}
}
