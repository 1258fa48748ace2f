package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
)

// A removal that is cut short says how far it came, unless it has not begun.
func TestARemovalThatIsCutShort(t *testing.T) {
	lost := errors.New("lost")
	for n, want := range map[int]string{0: "lost", 2: "2 items removed, the same command goes on: lost"} {
		if _, err := removedAnswer(n, lost); !errors.Is(err, lost) || err.Error() != want {
			t.Errorf("after %d: %v, want %s", n, err, want)
		}
	}
}

// meanwhile reads as an answer to a question; before it is read, something happens.
type meanwhile func()

func (m meanwhile) Read(p []byte) (int, error) { m(); return copy(p, "y\n"), nil }

// The namespace that is deleted is the one that was asked about, also if its name is given to
// another one before the answer.
func TestTheNamespaceAskedAboutIsDeleted(t *testing.T) {
	s := newShell(t)
	s.says(0, "namespace register prod")
	var stderr strings.Builder
	a := &app{out: io.Discard, errs: &stderr, memory: s.table, in: meanwhile(func() {
		s.says(0, "namespace delete -y prod")
		s.says(0, "namespace register prod")
	})}
	cmd := root(a)
	cmd.SetArgs([]string{"namespace", "delete", "prod"})
	if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, admin.ErrState) {
		t.Errorf("%v\n%s", err, stderr.String())
	}
	s.says(0, "namespace list", "prod")
}
