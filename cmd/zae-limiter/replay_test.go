package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/replay"
)

// given is a bucket of what the functions gave up, and the functions, which answer with err.
type given struct {
	objects   map[string]string
	unlisted  error // in place of the last key
	unread    error // in place of each object
	err       error
	delivered int
}

func (g *given) Keys(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(g.objects)) {
			if strings.HasPrefix(key, prefix) && !yield(key, nil) {
				return
			}
		}
		if g.unlisted != nil {
			yield("", g.unlisted)
		}
	}
}

func (g *given) Get(_ context.Context, key string) ([]byte, error) {
	return []byte(g.objects[key]), g.unread
}

func (g *given) Delete(_ context.Context, key string) error {
	delete(g.objects, key)
	return nil
}

func (g *given) Of(string) (replay.Function, bool) { return replay.Archiver, true }

func (g *given) Invoke(context.Context, replay.Function, []byte) ([]byte, int, error) {
	g.delivered++
	return []byte(`{"batchItemFailures":[]}`), 0, g.err
}

// batches returns a bucket with a batch of the archiver.
func batches(t *testing.T) *given {
	t.Helper()
	event, err := os.ReadFile(filepath.Join("..", "..", "events", "archiver-expired.json"))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := json.Marshal(map[string]any{
		"requestContext": map[string]any{"functionArn": "archiver", "condition": "RetryAttemptsExhausted"},
		"timestamp":      "2026-01-01T00:00:00.000Z", "payload": string(event), "version": "1.0",
	})
	if err != nil {
		t.Fatal(err)
	}
	return &given{objects: map[string]string{replay.BatchPrefix + "a": string(batch)}}
}

// A replay without --deliver lists what a replay would do and changes nothing; with it, what comes
// through is deleted.
func TestReplayDelivers(t *testing.T) {
	for _, c := range []struct {
		deliver          bool
		err              error
		outcome, errText string
		stay, delivered  int
		status           int
	}{
		{outcome: "looked at", stay: 1, status: no},
		{deliver: true, outcome: "done", delivered: 1, status: done},
		{deliver: true, err: errors.New("no right"), outcome: "left", errText: "no right", stay: 1, delivered: 1,
			status: no},
	} {
		g := batches(t)
		g.err = c.err
		var out, errs strings.Builder
		a := &app{out: &out, errs: &errs, format: "json", progress: startProgress(&errs, "never")}
		said, err := a.replay(t.Context(), []*replay.Replayer{{Objects: g, Functions: g}}, c.deliver)
		if err == nil {
			err = a.print(said)
		}
		if err != nil || status(said.but) != c.status || len(g.objects) != c.stay || g.delivered != c.delivered {
			t.Errorf("%+v: %v, %v, %d stay, %d delivered", c, err, said.but, len(g.objects), g.delivered)
		}
		var got struct {
			Objects []struct {
				Key, Outcome, Function, Reason, Error string
				Records                               int
			}
			Left int
		}
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || len(got.Objects) != 1 || got.Left != c.stay {
			t.Fatalf("%+v: %v\n%s", c, err, out.String())
		}
		if o := got.Objects[0]; o.Key != replay.BatchPrefix+"a" || o.Outcome != c.outcome || o.Function != "archiver" ||
			o.Records == 0 || o.Reason != "RetryAttemptsExhausted" || !strings.Contains(o.Error, c.errText) {
			t.Errorf("%+v: %+v", c, o)
		}
		if want := fmt.Sprintf("1 object, %d left", c.stay); !strings.Contains(errs.String(), want) {
			t.Errorf("said %q, want %q", errs.String(), want)
		}
		if text := a.progress.text(); text != "1 object" {
			t.Errorf("progress %q", text)
		}
	}
}

// Programs get the same columns as people get words.
func TestReplayInColumns(t *testing.T) {
	g := batches(t)
	var out, errs strings.Builder
	a := &app{out: &out, errs: &errs, format: "csv", progress: startProgress(&errs, "never")}
	said, err := a.replay(t.Context(), []*replay.Replayer{{Objects: g, Functions: g}}, false)
	if err == nil {
		err = a.print(said)
	}
	want := "key,outcome,function,records,reason,to count,counted before,error\n" +
		replay.BatchPrefix + "a,looked at,archiver,3,RetryAttemptsExhausted,,,\n"
	if err != nil || out.String() != want || errs.String() != "1 object, 1 left\n" {
		t.Errorf("%v\n%q\n%q", err, out.String(), errs.String())
	}
	out.Reset()
	a.format = "table"
	said, err = a.replay(t.Context(), []*replay.Replayer{{Objects: g, Functions: g}}, false)
	want = replay.BatchPrefix + "a: looked at, 3 records for the archiver, RetryAttemptsExhausted\n"
	if err != nil || said.value != nil || out.String() != want {
		t.Errorf("%v, %v\n%q", err, said.value, out.String())
	}
	g.unlisted = errors.New("no right to list")
	_, err = a.replay(t.Context(), []*replay.Replayer{{Objects: g, Functions: g}}, false)
	if !errors.Is(err, g.unlisted) {
		t.Errorf("what cannot be listed: %v", err)
	}
}

// A line says of an object what is known of it and no more.
func TestWhatIsSaidOfAnObject(t *testing.T) {
	failed := errors.New("malformed")
	batch := replay.Batch{Function: replay.Aggregator, Records: 3, Condition: "RetryAttemptsExhausted"}
	for _, c := range []struct {
		result replay.Result
		want   string
	}{
		{replay.Result{Key: "k", Outcome: replay.Strange}, "k: not understood\n"},
		{replay.Result{Key: "k\x1b[2J", Outcome: replay.Strange, Err: failed}, "k?[2J: not understood: malformed\n"},
		{replay.Result{Key: "k", Outcome: replay.Looked, Batch: batch,
			Usage: replay.Usage{ToCount: map[string]int64{"tpm": 20, "rpm": 1}, Counted: map[string]int64{"rpm": 2}}},
			"k: looked at, 3 records for the aggregator, RetryAttemptsExhausted, to count: rpm 1, tpm 20, " +
				"counted before: rpm 2\n"},
		{replay.Result{Key: "k", Outcome: replay.Looked, Usage: replay.Usage{ToCount: map[string]int64{"rpm": 1}}},
			"k: looked at, to count: rpm 1\n"},
		{replay.Result{Key: "k", Outcome: replay.Left, Batch: batch, Err: errors.New(batch.Condition)},
			"k: left, 3 records for the aggregator, RetryAttemptsExhausted\n"}, // the reason is said already
	} {
		var out strings.Builder
		(&app{out: &out}).printReplay(replayOf(c.result))
		if out.String() != c.want {
			t.Errorf("said %q, want %q", out.String(), c.want)
		}
	}
	behind := replay.Result{Key: "k", Outcome: replay.Looked, Usage: replay.Usage{Behind: make([]replay.Behind, 2)}}
	var out strings.Builder
	(&app{out: &out}).printReplay(replayOf(behind))
	if n := strings.Count(out.String(), "\n    not counted by a replay, counted already or missing: "); n != 2 {
		t.Errorf("%d lines of what lies behind:\n%s", n, out.String())
	}
}

// Without a yes nothing is delivered. Nobody is asked about a stack that is not there.
func TestReplayAsks(t *testing.T) {
	noAWS(t)
	s := &shell{T: t, stdin: "y\n"}
	if _, errs := s.run(failed, "replay", "--deliver"); strings.Contains(errs, "[y/N]") {
		t.Errorf("without a region: %s", errs)
	}
	batch := strings.ReplaceAll(batches(t).objects[replay.BatchPrefix+"a"], `"archiver"`,
		`"arn:aws:lambda:us-east-1:123456789012:function:arch"`)
	for _, c := range []struct {
		command, stdin string
		asked          bool
		status         int
	}{
		{"replay --deliver", "", true, failed}, {"replay --deliver", "n\n", true, failed},
		{"replay --deliver", "y\n", true, done}, {"replay --deliver --yes", "", false, done},
	} {
		stack := &aStack{env: theEnv, objects: map[string]string{"failed/" + replay.BatchPrefix + "a": batch}}
		onStack(t, stack)
		s.stdin = c.stdin
		_, errs := s.run(c.status, strings.Fields(c.command)...)
		kept := len(stack.objects) == 1 && len(stack.invoked) == 0
		if strings.Contains(errs, "Deliver again what the functions gave up") != c.asked || kept != (c.status == failed) {
			t.Errorf("%s, %q: kept %v\n%s", c.command, c.stdin, kept, errs)
		}
	}
}

// A replay that leaves objects ends in status 3, and says how many.
func TestReplaySaysWhatIsLeft(t *testing.T) {
	for _, deliver := range []bool{false, true} {
		var out, errs strings.Builder
		a := &app{out: &out, errs: &errs, format: "table", progress: startProgress(&errs, "never")}
		locked := &given{objects: map[string]string{replay.BatchPrefix + "odd": ""}, unread: errors.New("no right")}
		said, err := a.replay(t.Context(), []*replay.Replayer{{Objects: locked}}, deliver)
		if err != nil || status(said.but) != no || !strings.Contains(said.but.Error(), "1 object left") {
			t.Errorf("deliver %v: %v, %v, status %d\n%s", deliver, err, said.but, status(said.but), out.String())
		}
	}
	var out strings.Builder
	a := &app{out: &out, errs: &out, format: "table", progress: startProgress(nil, "never")}
	if said, err := a.replay(t.Context(), nil, true); err != nil || said.but != nil {
		t.Errorf("nothing there: %v, %v", err, said.but)
	}
}
