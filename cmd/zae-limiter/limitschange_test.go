package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Changing limits shows what leaves and what comes, and asks; limits that are not
// named stay unless --replace says otherwise.
func TestLimitsAreChangedKnowingly(t *testing.T) {
	s := newShell(t)
	s.says(1, "limits set -r gpt-4 rpm=10 tpm=500", "+ */gpt-4 rpm: 10 per 1m0s",
		"nobody answered; nothing was changed (--yes answers)")
	s.says(1, "limits get -r gpt-4", "not found")
	s.stdin = "y\n"
	s.says(0, "limits set -r gpt-4 rpm=10 tpm=500", "Change the limits of */gpt-4?", "* gpt-4 tpm 500")
	s.stdin = ""
	s.says(0, "limits set -r gpt-4 tpm=500", "nothing to change", "* gpt-4 rpm 10")
	s.says(0, "limits set -r gpt-4 rpm=20 --yes", "- */gpt-4 rpm: 10 per 1m0s", "+ */gpt-4 rpm: 20 per 1m0s",
		"* gpt-4 tpm 500")
	s.stdin = "no\n"
	s.says(1, "limits set -r gpt-4 --replace rpm=30", "- */gpt-4 tpm: 500 per 1m0s", "not confirmed; nothing was changed")
	s.says(1, "limits delete -r gpt-4", "- */gpt-4 rpm: 20", "- */gpt-4 tpm: 500", "Remove the limits of */gpt-4?",
		"not confirmed")
	s.stdin = ""
	s.says(0, "limits get -r gpt-4", "rpm 20", "tpm 500")
	s.says(0, "limits set -r gpt-4 --replace --yes rpm=30", "- */gpt-4 tpm: 500 per 1m0s")
	s.says(0, "policy set -y --on-unavailable allow")
	s.says(0, "limits set --everybody rpm=1 -y", "+ */* rpm: 1 per 1m0s")
	s.says(0, "limits delete --everybody -y", "- */* rpm: 1 per 1m0s", "* * rpm")
	s.says(0, "limits set --everybody rpm=1 -y")
	if out, _ := s.run(0, "limits", "delete", "--everybody", "-y", "-o", "json"); strings.Contains(out, "allow") {
		t.Errorf("the policy stays, and is said to be deleted: %s", out)
	}
	s.says(0, "policy get", "allow")
	s.says(0, "limits delete -r none", "nothing there")
	s.says(2, "reset -y acme gpt-4 --id #", "id")
	for to, want := range map[string]string{"2000-01-01": "nothing there", "2100-01-01": "ACTION"} {
		s.says(0, "audit -r gpt-4 --to "+to, want)
	}
	s.says(0, "disable -y -r gpt-4")
	if _, shown := s.run(1, "limits", "delete", "-r", "gpt-4"); strings.Contains(shown, "disabled") {
		t.Errorf("the switch stays, and is said to leave: %s", shown)
	}
	got := prints[map[string]struct{ Limits []struct{ Name string } }](s, "limits delete -r gpt-4 --yes")
	if l := got["deleted"].Limits; len(l) != 1 || l[0].Name != "rpm" {
		t.Errorf("deleted %+v", got)
	}
}

// What was changed between the question and the answer is not overwritten: nobody was shown that.
func TestLimitsAreChangedAsShown(t *testing.T) {
	for _, args := range [][]string{{"limits", "set", "-r", "gpt-4", "tpm=500"}, {"limits", "delete", "-r", "gpt-4"},
		{"limits", "set", "-r", "gpt-4", "--replace", "tpm=500"}} {
		s := newShell(t)
		s.says(0, "limits set -y -r gpt-4 rpm=10")
		var stderr strings.Builder
		a := &app{out: io.Discard, errs: &stderr, memory: s.table, in: meanwhile(func() {
			s.says(0, "limits set -y -r gpt-4 rpm=20")
		})}
		cmd := root(a)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, admin.ErrBusy) {
			t.Errorf("%v: %v\n%s", args, err, stderr.String())
		}
		s.says(0, "limits get -r gpt-4", "rpm 20")
	}
}

// Only y and yes are a yes, however they are written. Any other answer is a no.
func TestWhatIsAYes(t *testing.T) {
	for answer, want := range map[string]int{
		"y\n": 0, "yes\n": 0, "Y\n": 0, " YES \r\n": 0, "y": 0, "\n": 1, "n\n": 1, "no\n": 1, "maybe\n": 1, "yess\n": 1,
		"ye\n": 1, "ok\n": 1, "j\n": 1, "1\n": 1, "no\ny\n": 1,
	} {
		s := newShell(t)
		s.stdin = answer
		text := map[int]string{0: "* gpt-4 rpm 10", 1: "not confirmed; nothing was changed"}[want]
		s.says(want, "limits set -r gpt-4 rpm=10", text)
	}
}

// What is credited by an id twice is credited once.
func TestACreditWithAnID(t *testing.T) {
	s := newShell(t)
	s.says(0, "limits set --yes -r gpt-4 rpd=100@daily", "rpd")
	for range 2 {
		s.says(0, "credit acme gpt-4 rpd=50 --id n-1", "50")
	}
	s.says(0, "peek acme gpt-4", "150", "*/gpt-4")
	s.says(0, "credit acme gpt-4 rpd=010 --id n-3", "rpd 10")
	s.says(0, "reset -y acme gpt-4 --id n-2", "rpd")
	s.says(2, "credit acme gpt-4 rpd=1 --id a/b", "1 to 64 letters")
	s.says(2, "reset -y acme gpt-4 --id n-1", "top_up")
}

// A table that does not answer, or must not, says nothing of what is stored; what cannot be read does.
func TestWhatSaysNothingOfWhatIsStored(t *testing.T) {
	for err, want := range map[error]bool{
		limiter.ErrUnavailable: true, limiter.ErrSetup: true, limiter.ErrInvalid: true, context.Canceled: true,
		admin.ErrNotFound: false, limiter.ErrVersion: false,
		fmt.Errorf("%w: %w", admin.ErrConfig, limiter.ErrInvalid): false, // it has been read
	} {
		if err = fmt.Errorf("read: %w", err); unanswered(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// Limits that are not named stay, and all are in order.
func TestSetKeepsOtherLimits(t *testing.T) {
	limit := limiter.PerMinute
	got := merge([]limiter.Limit{limit("b", 1), limit("a", 1)}, []limiter.Limit{limit("c", 2), limit("b", 2)})
	if want := []limiter.Limit{limit("a", 1), limit("b", 2), limit("c", 2)}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
