package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The registry of scopes with limits changes when limits come or leave, and not otherwise.
func TestTheRegistryCountsWhatHasLimits(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		entity, resource string
		was, is          bool
		want             int
	}{
		{"acme", "gpt-4", false, true, 1}, {"acme", "gpt-4", true, false, 1}, {"acme", "gpt-4", true, true, 0},
		{"acme", "gpt-4", false, false, 0}, {"", "gpt-4", false, true, 1},
	} {
		got := w.ns.registers(c.was, table.Config{Entity: c.entity, Resource: c.resource}, c.is)
		if len(got) != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
