package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden outcomes in testdata")

// TestSampleEvents sends every archiver-*.json of the events folder through the
// handler and compares the response, the metrics and the bucket with the golden
// outcome of the same name. An event without an outcome fails, and so does an
// outcome without an event.
func TestSampleEvents(t *testing.T) {
	events, err := filepath.Glob("../../events/archiver-*.json")
	if err != nil || len(events) == 0 {
		t.Fatalf("no sample events found: %v", err)
	}
	known := map[string]bool{}
	for _, event := range events {
		name := strings.TrimSuffix(filepath.Base(event), ".json")
		golden := filepath.Join("testdata", name+".golden")
		known[golden] = true
		t.Run(name, func(t *testing.T) {
			payload, err := os.ReadFile(event)
			if err != nil {
				t.Fatal(err)
			}
			got := outcomeOf(t, payload)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("event without golden outcome (write it with -update, then read it): %v", err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	goldens, err := filepath.Glob("testdata/archiver-*.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goldens {
		if !known[g] {
			t.Errorf("%s has no event", g)
		}
	}
}

func outcomeOf(t *testing.T, payload []byte) string {
	t.Helper()
	s := newStore(t)
	h, metrics := s.handler(t, 1)
	response, err := h.Handle(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(metrics.Bytes(), &m); err != nil {
		t.Fatalf("metric line %q: %v", metrics, err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "response %s\nmetrics", response)
	for _, name := range []string{"Records", "Changes", "Malformed", "Skipped", "Writes", "WritesFailed", "Existing", "NotBegun"} {
		fmt.Fprintf(&out, " %s=%v", name, m[name])
	}
	out.WriteString("\n")
	for _, o := range s.objects(t) {
		fmt.Fprintf(&out, "\n%s\n%s %s\n%s", o.Key, o.Type, o.Encoding, o.Text)
	}
	return out.String()
}
