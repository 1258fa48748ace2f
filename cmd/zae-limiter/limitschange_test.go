package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

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
func TestOnlyYAndYesConfirm(t *testing.T) {
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

// A table that does not answer, or must not, says nothing of what is stored; what cannot be read does.
func TestNoAnswerShowsNothingStored(t *testing.T) {
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
