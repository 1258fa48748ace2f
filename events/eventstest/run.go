// Package eventstest holds a function to the golden outcomes of the sample
// events in the events folder.
package eventstest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden outcomes in testdata")

// Run calls outcome with every sample event of the function, <folder>/<function>-*.json. It
// compares the result with the golden file of the same name in testdata, which go test -update
// rewrites. An event without an outcome fails, and so does an outcome without an event, and
// finding no event at all.
func Run(t *testing.T, folder, function string, outcome func(t *testing.T, payload []byte) string) {
	events, err := filepath.Glob(folder + "/" + function + "-*.json")
	if err != nil || len(events) == 0 {
		t.Fatalf("no sample events of %s found: %v", function, err)
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
			got := outcome(t, payload)
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
	goldens, err := filepath.Glob("testdata/" + function + "-*.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goldens {
		if !known[g] {
			t.Errorf("%s has no event", g)
		}
	}
}
