package eventsource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// The records of these tests are numbered by their sequence numbers 1, 2, 3, ...
func numbered(from, to int) []Record {
	var out []Record
	for i := from; i <= to; i++ {
		out = append(out, Record{Sequence: strconv.Itoa(i), Created: 1_000_000,
			Body: []byte(`{"n":` + strconv.Itoa(i) + `}`)})
	}
	return out
}

func span(records []Record) string {
	var names []string
	for _, r := range records {
		names = append(names, r.Sequence)
	}
	if len(names) > 2 && !slices.Contains(names, "") {
		return names[0] + "-" + names[len(names)-1]
	}
	return strings.Join(names, ",")
}

// function is the function under test: its answer to a batch.
type function func(batch []Record) (answer string, functionError bool)

func crashOn(bad ...string) function {
	return func(batch []Record) (string, bool) {
		for _, r := range batch {
			if slices.Contains(bad, r.Sequence) {
				return "", true
			}
		}
		return "{}", false
	}
}

func reportFirst(bad ...string) function {
	return func(batch []Record) (string, bool) {
		for _, r := range batch {
			if slices.Contains(bad, r.Sequence) {
				return `{"batchItemFailures":[{"itemIdentifier":"` + r.Sequence + `"}]}`, false
			}
		}
		return `{"batchItemFailures":[]}`, false
	}
}

// times makes f fail only in the first n invocations.
func times(n int, f function) function {
	return func(batch []Record) (string, bool) {
		if n--; n < 0 {
			return "null", false
		}
		return f(batch)
	}
}

// idle reports whether nothing is waiting or running.
func (l *lane) idle() bool { return len(l.waiting)+len(l.work)+len(l.late) == 0 }

// drive runs l until nothing is left. It returns the deliveries, and the dropped records with the
// reason. Time jumps to the lane's next wake-up.
func drive(l *lane, f function, now int64) string {
	var story []string
	report := func(drops []GivenUp) {
		for _, d := range drops {
			story = append(story, fmt.Sprintf("drop %s %s after %d", span(d.Records), d.Condition, d.Invokes))
		}
	}
	for range 1000 {
		s := l.next(now)
		report(s.drops)
		if s.invoke == nil {
			if s.until == 0 {
				return strings.Join(story, "; ")
			}
			now = s.until
			continue
		}
		if !s.invoke.started {
			s.invoke.start(Trouble{})
		}
		batch := s.invoke.records
		answer, failed := f(batch)
		o := judge(batch, []byte(answer), failed, l.settings.Report)
		if l.settings.Tumbling > 0 {
			state, ok := stateOf([]byte(answer))
			if !ok {
				o = wholeBatchFailed
			}
			var event struct{ IsFinalInvokeForWindow, IsWindowTerminatedEarly bool }
			if err := json.Unmarshal(l.payload(s.invoke, "arn", "shard"), &event); err != nil {
				return err.Error()
			}
			story = append(story, fmt.Sprintf("%s %s", nameOf(l.window), l.window.state))
			if event.IsFinalInvokeForWindow {
				story = append(story, "final")
			}
			if event.IsWindowTerminatedEarly {
				story = append(story, "early")
			}
			l.carry(s.invoke, o, state)
		}
		word := "ok"
		if o.failed {
			word = "failed"
		}
		story = append(story, span(batch)+" "+word)
		report(l.done(o, now).drops)
	}
	return strings.Join(story, "; ") + "; and so on"
}

func TestLaneFollowsTheRules(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings Settings // over: BatchSize 4, no bisect, report, 2 retries
		bisect   bool
		records  int
		f        function
		want     string
	}{
		{name: "success goes on", records: 6, f: crashOn(), want: "1-4 ok; 5,6 ok"},
		{name: "whole failure is retried, then given up", records: 5, f: crashOn("2"),
			want: "1-4 failed; 1-4 failed; 1-4 failed; drop 1-4 RetryAttemptsExhausted after 3; 5 ok"},
		{name: "whole failure heals", records: 4, f: times(2, crashOn("2")), want: "1-4 failed; 1-4 failed; 1-4 ok"},
		{name: "bisecting isolates the record without using up retries", bisect: true, records: 5, f: crashOn("2"),
			want: "1-4 failed; 1,2 failed; 1 ok; 2 failed; 2 failed; 2 failed; drop 2 RetryAttemptsExhausted after 5; 3,4 " +
				"ok; 5 ok"},
		{name: "bisecting an odd batch", bisect: true, records: 3, f: crashOn("3"),
			want: "1-3 failed; 1,2 ok; 3 failed; 3 failed; 3 failed; drop 3 RetryAttemptsExhausted after 4"},
		{name: "checkpoint: everything from it comes again", records: 4, f: times(1, reportFirst("3")),
			want: "1-4 failed; 3,4 ok"},
		{name: "checkpoint without bisect uses up retries", records: 4, f: reportFirst("3"),
			want: "1-4 failed; 3,4 failed; 3,4 failed; drop 3,4 RetryAttemptsExhausted after 3"},
		{name: "checkpoint with bisect cuts and does not", bisect: true, records: 4, f: reportFirst("3"),
			want: "1-4 failed; 3,4 failed; 3,4 failed; 3,4 failed; drop 3,4 RetryAttemptsExhausted after 4"},
		{name: "the first record is no cut", bisect: true, records: 2, f: times(1, reportFirst("1")),
			want: "1,2 failed; 1,2 ok"},
		{name: "the lowest number counts, not the first", records: 4, f: times(1, func([]Record) (string, bool) {
			return `{"batchItemFailures":[{"itemIdentifier":"4"},{"itemIdentifier":"2"}]}`, false
		}), want: "1-4 failed; 2-4 ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := DefaultSettings()
			s.BatchSize, s.MaxRetries, s.Report, s.Bisect = 4, 2, true, tt.bisect
			l := &lane{settings: s}
			l.add(1_000_000, numbered(1, tt.records)...)
			check.Equal(t, drive(l, tt.f, 1_000_000), tt.want)
			if l.settled != tt.records || l.added != tt.records || !l.idle() {
				t.Errorf("settled %d of %d, idle %v", l.settled, l.added, l.idle())
			}
		})
	}
}

func TestWithoutReportingEveryAnswerIsSuccess(t *testing.T) {
	l := &lane{settings: DefaultSettings()}
	l.add(0, numbered(1, 3)...)
	check.Equal(t, drive(l, reportFirst("2"), 0), "1-3 ok")
}

func TestRetriesWithoutEnd(t *testing.T) {
	l := &lane{settings: DefaultSettings()}
	l.add(0, numbered(1, 1)...)
	if got := drive(l, crashOn("1"), 0); !strings.HasSuffix(got, "and so on") || strings.Contains(got, "drop") {
		t.Error(got)
	}
}

func TestRecordsPastTheirAgeAreGivenUp(t *testing.T) {
	s := DefaultSettings()
	s.MaxAge = time.Minute
	l := &lane{settings: s}
	batch := numbered(1, 4)
	batch[0].Created, batch[1].Created = 0, 5_000
	l.add(70_000, batch...)
	want := "drop 1,2 RecordAgeExceeded after 0; 3,4 ok"
	check.Equal(t, drive(l, crashOn(), 70_000), want)
	// A batch that fails for longer than the maximum age ends because of its age, not its retries.
	s.RetryDelay = 2 * time.Second
	l = &lane{settings: s}
	l.add(1_000_000, numbered(5, 6)...)
	if got := drive(l, crashOn("5"), 1_000_000); !strings.HasSuffix(got, "drop 5,6 RecordAgeExceeded after 31") {
		t.Error(got)
	}
}

func TestBatchesWaitForTheirWindow(t *testing.T) {
	s := DefaultSettings()
	s.BatchSize, s.Window = 3, time.Second
	l := &lane{settings: s}
	l.add(100, numbered(1, 2)...)
	if got := l.next(1_099); got.invoke != nil || got.until != 1_100 {
		t.Errorf("before the window ends: %+v", got)
	}
	if got := l.next(1_100); got.invoke == nil || span(got.invoke.records) != "1,2" {
		t.Errorf("when it ends: %+v", got)
	}
	l = &lane{settings: s}
	l.add(100, numbered(1, 7)...)
	if got := l.next(100); got.invoke == nil || span(got.invoke.records) != "1-3" {
		t.Errorf("full at once: %+v", got)
	}
}

// The state of a tumbling window is part of the event.
func TestBatchesStayUnderSixMegabytes(t *testing.T) {
	for _, c := range []struct {
		tumbling    time.Duration
		state, each int // bytes
		want        string
	}{
		{0, 0, 2 << 20, "1,2"},
		{time.Minute, maxState, 5 << 19, "1"},
	} {
		s := DefaultSettings()
		s.Window, s.Tumbling = time.Hour, c.tumbling
		l := &lane{settings: s}
		if c.tumbling > 0 {
			l.window = tumblingWindow{open: true, state: json.RawMessage(strings.Repeat("s", c.state))}
		}
		heavy := numbered(1, 4)
		for i := range heavy {
			heavy[i].Body, heavy[i].Created = []byte(strings.Repeat("x", c.each)), 0
		}
		l.add(0, heavy...)
		got := l.next(0)
		if got.invoke == nil || span(got.invoke.records) != c.want ||
			len(l.payload(got.invoke, "arn", "shard")) > maxPayload {
			t.Fatalf("with a state of %d bytes: step %+v, want %s", c.state, got, c.want)
		}
	}
}

// delivered returns the batches of a lane. The first batch has trouble, and its first invocations
// have these outcomes; all others succeed.
func delivered(l *lane, trouble Trouble, outcomes ...outcome) string {
	var got []string
	var now int64
	for !l.idle() {
		step := l.next(now)
		if step.invoke == nil {
			now = step.until
			continue
		}
		if !step.invoke.started {
			step.invoke.start(trouble)
			trouble = Trouble{}
		}
		o := success(step.invoke.records)
		if len(got) < len(outcomes) {
			o = outcomes[len(got)]
		}
		got = append(got, span(step.invoke.records))
		l.done(o, now)
	}
	return strings.Join(got, " ")
}

func TestDuplicates(t *testing.T) {
	for _, tt := range []struct {
		name    string
		trouble Trouble
		want    string
	}{
		{"at once", Trouble{Again: []time.Duration{0}}, "1,2 1,2 3,4"},
		{"late, other batches in between", Trouble{Again: []time.Duration{time.Minute}}, "1,2 3,4 1,2"},
		{"both", Trouble{Again: []time.Duration{0, time.Minute}}, "1,2 1,2 3,4 1,2"},
		{"extra records stay through", Trouble{Again: []time.Duration{0}, Extra: []Record{RawRecord(`"x"`, 0)}, ExtraAt: 1},
			"1,,2 1,,2 3,4"},
		{"extra record past the end",
			Trouble{Extra: []Record{RawRecord(`{"dynamodb":{"SequenceNumber":"9"}}`, 0)}, ExtraAt: 99}, "1-9 3,4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := DefaultSettings()
			s.BatchSize = 2
			l := &lane{settings: s}
			l.add(0, numbered(1, 4)...)
			if got := delivered(l, tt.trouble); got != tt.want || l.settled != 4 {
				t.Errorf("got %s, want %s; settled %d", got, tt.want, l.settled)
			}
		})
	}
}

// A batch that was cut still comes again, whole, when its last part is processed.
func TestDuplicatesOfABatchThatIsCut(t *testing.T) {
	reported := func(done int) outcome { return outcome{done: done, failed: true} }
	for _, tt := range []struct {
		name    string
		retries int
		answers []outcome // of the first invocations; the others succeed
		want    string
	}{
		{"in halves", -1, []outcome{wholeBatchFailed}, "1-4 1,2 3,4 1-4 5-8 1-4"},
		{"the second half again", -1, []outcome{wholeBatchFailed, success(numbered(1, 2)), wholeBatchFailed},
			"1-4 1,2 3,4 3 4 1-4 5-8 1-4"},
		{"the first half again", -1, []outcome{wholeBatchFailed, wholeBatchFailed}, "1-4 1,2 1 2 3,4 1-4 5-8 1-4"},
		{"at a checkpoint", -1, []outcome{reported(1)}, "1-4 2-4 1-4 5-8 1-4"},
		{"the copy, too", -1, []outcome{success(numbered(1, 4)), wholeBatchFailed}, "1-4 1-4 1,2 3,4 5-8 1-4"},
		{"and a part is given up", 0, []outcome{wholeBatchFailed, wholeBatchFailed, wholeBatchFailed},
			"1-4 1,2 1 2 3,4 5-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := DefaultSettings()
			s.BatchSize, s.Bisect, s.MaxRetries = 4, true, tt.retries
			l := &lane{settings: s}
			l.add(0, numbered(1, 8)...)
			trouble := Trouble{Again: []time.Duration{0, time.Minute}}
			if got := delivered(l, trouble, tt.answers...); got != tt.want || l.settled != 8 {
				t.Errorf("got %s, want %s; settled %d", got, tt.want, l.settled)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	batch := numbered(1, 3)
	for answer, want := range map[string]outcome{
		`{"batchItemFailures":[]}`:   {done: 3},
		`{"batchItemFailures":null}`: {done: 3},
		`{}`:                         {done: 3},
		`null`:                       {done: 3},
		``:                           {done: 3},
		`{"batchItemFailures":[{"itemIdentifier":"2"}]}`:                         {done: 1, failed: true},
		`{"batchItemFailures":[{"itemIdentifier":"3"},{"itemIdentifier":"2"}]}`:  {done: 1, failed: true},
		`{"batchItemFailures":[{"itemIdentifier":"1"}]}`:                         {done: 0, failed: true},
		`{"batchItemFailures":[{"itemIdentifier":""}]}`:                          wholeBatchFailed,
		`{"batchItemFailures":[{"itemIdentifier":null}]}`:                        wholeBatchFailed,
		`{"batchItemFailures":[{"itemIdentifier":"77"}]}`:                        wholeBatchFailed,
		`{"batchItemFailures":[{"itemIdentifier":"3"},{"itemIdentifier":"77"}]}`: wholeBatchFailed,
		`{"batchItemFailures":[{"itemIdentifer":"2"}]}`:                          wholeBatchFailed,
		`{"batchItemFailures":[{"itemIdentifier":2}]}`:                           wholeBatchFailed,
		`{"batchItemFailures":[null]}`:                                           wholeBatchFailed,
		`{"batchItemFailures":"2"}`:                                              wholeBatchFailed,
		`{"batchItemFailures":`:                                                  wholeBatchFailed,
		`"done"`:                                                                 wholeBatchFailed,
	} {
		check.Equal(t, judge(batch, []byte(answer), false, true), want, "answer %s", answer)
	}
	check.Equal(t, judge(batch, []byte(`{}`), true, true), wholeBatchFailed, "function error")
}

// nameOf names a window in the output.
func nameOf(w tumblingWindow) string {
	if !w.open {
		return "no window"
	}
	return strings.TrimSuffix(time.UnixMilli(w.start).UTC().Format(time.RFC3339), "Z")
}
