package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
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
	check.Must(t, err)
	batch, err := json.Marshal(map[string]any{
		"requestContext": map[string]any{"functionArn": "archiver", "condition": "RetryAttemptsExhausted"},
		"timestamp":      "2026-01-01T00:00:00.000Z", "payload": string(event), "version": "1.0",
	})
	check.Must(t, err)
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
		a := &app{out: &out, errs: &errs, format: "json", progress: startProgress(&errs, false)}
		said := a.replay(t.Context(), []*replay.Replayer{{Objects: g, Functions: g}}, c.deliver)
		if err := a.print(said); err != nil || status(said.but) != c.status || len(g.objects) != c.stay ||
			g.delivered != c.delivered {
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
		check.Equal(t, a.progress.text(), "1 object", "progress")
	}
}

// An answer has a row for each object, with what is known of it and no more, also where the rest cannot be listed.
func TestReplayInColumns(t *testing.T) {
	g := batches(t)
	g.unlisted = errors.New("no right to list")
	var out, errs strings.Builder
	a := &app{out: &out, errs: &errs, format: "csv", progress: startProgress(&errs, false)}
	said := a.replay(t.Context(), []*replay.Replayer{{Objects: g, Functions: g}}, false)
	want := "key,outcome,function,records,reason,to count,counted before,behind,error\n" +
		replay.BatchPrefix + "a,looked at,archiver,3,RetryAttemptsExhausted,,,,\n"
	if err := a.print(said); err != nil || out.String() != want || errs.String() != "1 object, 1 left\n" ||
		!errors.Is(said.but, g.unlisted) {
		t.Errorf("%v, %v\n%q\n%q", err, said.but, out.String(), errs.String())
	}
	malformed := errors.New("malformed")
	v := replayOf(replay.Result{Batch: replay.Batch{Condition: "too new"}, Err: malformed,
		Usage: replay.Usage{Behind: make([]string, 2)}})
	if len(v.Behind) != 2 || v.Error != "malformed" {
		t.Errorf("%+v", v)
	}
	v = replayOf(replay.Result{Batch: replay.Batch{Condition: "malformed"}, Err: malformed})
	if v.Error != "" || v.Reason != "malformed" { // the reason is said already
		t.Errorf("%+v", v)
	}
	check.Equal(t, amounts(map[string]int64{"tpm": 20, "rpm": 1}), "rpm 1, tpm 20", "amounts")
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

// Objects that cannot be read are left, and where nothing is there nothing is.
func TestReplayListsLeftoverObjects(t *testing.T) {
	locked := &given{objects: map[string]string{replay.BatchPrefix + "odd": ""}, unread: errors.New("no right")}
	for _, deliver := range []bool{false, true} {
		a := &app{errs: io.Discard, progress: startProgress(nil, false)}
		said := a.replay(t.Context(), []*replay.Replayer{{Objects: locked}}, deliver)
		if status(said.but) != no || !strings.Contains(said.but.Error(), "1 object left") {
			t.Errorf("deliver %v: %v, status %d", deliver, said.but, status(said.but))
		}
		if said := a.replay(t.Context(), nil, deliver); said.but != nil {
			t.Errorf("nothing there: %v", said.but)
		}
	}
}
