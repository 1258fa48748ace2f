package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestEntitiesAndNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		s := newShell(t)
		s.says(1, "entity create key-1 --parent acme", "entity create makes a parent that is missing")
		s.says(0, "entity create acme --name Acme", "acme Acme")
		s.run(0, "entity", "create", "key-1", "--parent", "acme", "--charge-parent", "--metadata", `{"tier": "gold"}`)
		s.says(1, "entity create key-1", "exists already")
		for _, bad := range []string{"{", "[]", "{}x", "{}{}", `{"a":1e400}`, `{"a":[12345678901234567890]}`} {
			s.says(2, "entity create key-3 --metadata "+bad, "--metadata: want a JSON object")
		}
		s.says(0, `entity create numbers --metadata {"n":[1234567890123456789,0.5,-7,2e1,3E1],"m":{"i":9007199254740993}}`)
		if out, _ := s.run(0, "entity", "get", "numbers", "-o", "json"); !strings.Contains(
			strings.Join(strings.Fields(out), ""),
			`"metadata":{"m":{"i":9007199254740993},"n":[1234567890123456789,0.5,-7,20,30]}`) {
			t.Errorf("metadata: %s", out)
		}
		s.says(1, "entity move ghost -y --parent acme", "not found")
		s.says(0, "entity children acme", "key-1 key-1 acme true")
		s.says(0, "entity create key-2 --parent acme")
		s.says(0, "entity children acme", "key-1 key-1 acme true", "key-2 key-2 acme false")
		s.says(1, "entity delete acme",
			"children that charge it: 1. Their requests fail until entity move gives them another parent",
			`Remove entity "acme"`)
		s.says(0, "entity delete key-2 -y")
		type entity struct {
			ID       string
			Metadata map[string]any
		}
		if got := prints[[]entity](s, "entity get key-1"); len(got) != 1 || got[0].Metadata["tier"] != "gold" {
			t.Errorf("entity: %+v", got)
		}
		s.says(1, "entity delete key-1", "nothing was changed")
		s.says(0, "entity delete key-1 --yes", "ITEMS REMOVED")
		s.says(1, "entity get key-1", "not found")
		s.says(1, "namespace delete ghost", "zae-limiter namespace register ghost makes one")
		s.says(3, "limits resolve nobody gpt-4", `no scope has limits for "nobody" on "gpt-4"`)
		out, errs := s.run(0, "entity", "children", "acme")
		if out != "" || !strings.Contains(errs, "nothing there") {
			t.Errorf("no children: %q %q", out, errs)
		}
		if got := prints[[]entity](s, "entity children acme"); got == nil || len(got) != 0 {
			t.Errorf("no children in JSON: %v", got)
		}

		type namespace struct{ ID, Name, Status string }
		id := prints[[]namespace](s, "namespace register prod")[0].ID
		s.says(0, "namespace list", "default", "prod")
		s.says(0, "limits set -y --everybody -n prod rpm=5")
		s.says(1, "namespace purge -y "+id, "zae-limiter: purge namespace", "namespace list --all") // no use to go on
		s.says(2, "namespace purge -y prod", `"prod" is the name of a namespace in use`)
		s.says(1, "namespace delete prod", `Delete namespace "prod"?`, "nothing was changed")
		s.says(0, "namespace delete -y prod", "recover "+id)
		s.says(1, "limits list -n prod", "zae-limiter namespace register prod")
		s.says(0, "namespace list --all", "prod "+id+" deleted")
		check.Equal(t, len(prints[[]namespace](s, "namespace list")), 1, "without the one that is deleted")
		s.says(1, "namespace purge "+id, "Remove everything in namespace "+id+", for good?")
		s.says(0, "namespace recover "+id, "prod", "active")
		s.says(0, "limits list -n prod", "rpm 5")
		s.says(0, "namespace delete -y prod")
		if out, errs := s.run(0, "namespace", "purge", "-y", id); !strings.Contains(out, "ITEMS REMOVED") ||
			strings.Contains(errs, "nothing was there") {
			t.Errorf("a purge: %s%s", out, errs)
		}
		s.says(0, "namespace purge -y "+id, "nothing was there", "ITEMS REMOVED 0")
		if got := prints[[]namespace](s, "namespace list --all"); len(got) != 1 || got[0].Name != "default" {
			t.Errorf("after the purge: %+v", got)
		}
	})
}

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
