package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// No more than a hundred names are offered, of those that go on from what is typed.
func TestAHundredNamesAreOffered(t *testing.T) {
	s := newShell(t)
	ns := s.table.Admin("")
	for i := range 130 {
		for _, name := range []string{"a", "b"}[:1+i%2] { // 130 and 65
			scope := admin.Scope{Entity: fmt.Sprintf("%s%d", name, i)}
			check.Must(t, ns.SetLimits(t.Context(), scope, limiter.PerMinute("rpm", 1)))
		}
	}
	for typed, want := range map[string]int{"": 100, "a": 100, "b": 65, "c": 0} {
		out, _ := s.run(0, "__complete", "peek", typed)
		names, _, _ := strings.Cut(out, ":")
		got := strings.Fields(names)
		check.Equal(t, len(got), want, "%q: names are offered", typed)
	}
}

// Whatever names an entity, a resource or a limit is completed, in every command.
func TestEveryNameIsCompleted(t *testing.T) {
	leaf(func(path string, c *cobra.Command) {
		for _, flag := range []string{"entity", "resource", "parent"} {
			if f := c.Flags().Lookup(flag); f != nil {
				if _, ok := c.GetFlagCompletionFunc(flag); !ok {
					t.Errorf("zae-limiter %s: --%s is not completed", path, flag)
				}
			}
		}
		names := []string{"ENTITY", "RESOURCE", "LIMIT...", "[LIMIT...]", "LIMIT=AMOUNT...", "ID"}
		if slices.ContainsFunc(arguments(c), func(w string) bool { return slices.Contains(names, w) }) &&
			c.ValidArgsFunction == nil {
			t.Errorf("zae-limiter %s: %q is not completed", path, c.Use)
		}
	})
}

// Nothing is offered, and nothing is said, where there is no table.
func TestNothingIsOfferedWithoutATable(t *testing.T) {
	noAWS(t)
	s := &shell{T: t}
	if out, _ := s.run(0, "__complete", "peek", ""); !strings.HasPrefix(out, ":4") {
		t.Errorf("%q", out)
	}
}
