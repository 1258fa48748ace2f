package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/replay"
)

// locked is a bucket with one object that cannot be read.
type locked struct{}

func (locked) Keys(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if prefix == replay.BatchPrefix {
			yield(prefix+"odd", nil)
		}
	}
}
func (locked) Get(context.Context, string) ([]byte, error) { return nil, errors.New("no right") }
func (locked) Delete(context.Context, string) error        { return errors.New("it stays") }

// A replay that leaves objects ends in status 3, and says how many.
func TestReplaySaysWhatIsLeft(t *testing.T) {
	for _, deliver := range []bool{false, true} {
		var out, errs strings.Builder
		a := &app{out: &out, errs: &errs, format: "table", progress: startProgress(&errs, "never")}
		said, err := a.replay(t.Context(), []*replay.Replayer{{Objects: locked{}}}, deliver)
		if err != nil || status(said.but) != no || !strings.Contains(said.but.Error(), "1 objects are left") {
			t.Errorf("deliver %v: %v, %v, status %d\n%s", deliver, err, said.but, status(said.but), out.String())
		}
	}
	var out strings.Builder
	a := &app{out: &out, errs: &out, format: "table", progress: startProgress(nil, "never")}
	if said, err := a.replay(t.Context(), nil, true); err != nil || said.but != nil {
		t.Errorf("nothing there: %v, %v", err, said.but)
	}
}
