package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/events/eventstest"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestSampleEvents sends every archiver-*.json of the events folder through the
// handler and compares the response, the metrics and the bucket with the golden
// outcome.
func TestSampleEvents(t *testing.T) { eventstest.Run(t, "../../events", "archiver", outcomeOf) }

func outcomeOf(t *testing.T, payload []byte) string {
	t.Helper()
	s := newStore(t)
	h, metrics := s.handler(t, 1)
	response, err := h.Invoke(t.Context(), payload)
	check.Must(t, err)
	var m map[string]any
	check.Must(t, json.Unmarshal(metrics.Bytes(), &m), "metric line %q", metrics)
	var out strings.Builder
	fmt.Fprintf(&out, "response %s\nmetrics", response)
	for _, name := range []string{"Records", "Changes", "Malformed", "Skipped", "Writes", "WritesFailed", "Existing",
		"NotBegun"} {
		fmt.Fprintf(&out, " %s=%v", name, m[name])
	}
	out.WriteString("\n")
	for _, o := range s.objects(t) {
		fmt.Fprintf(&out, "\n%s\n%s %s\n%s", o.Key, o.Type, o.Encoding, o.Text)
	}
	return out.String()
}
