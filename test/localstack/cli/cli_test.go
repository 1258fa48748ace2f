// Package cli runs the built command-line tool on an emulator. The commands and their output are
// tested in cmd/zae-limiter. Here are tests that need the built tool.
package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// binary is the built tool.
var binary string

func TestMain(m *testing.M) {
	os.Exit(engine.WithTool(func(path string) int {
		binary = path
		defer engine.StopShared()
		return m.Run()
	}))
}

// shell runs commands on one table.
type shell struct {
	*testing.T
	env []string
}

func newShell(t *testing.T, e *engine.Engine, name string) *shell {
	return &shell{T: t, env: append(e.Env(), "ZAEL_STACK="+name, "HOME="+t.TempDir())}
}

// run runs a command, which must end with the status, and returns its output.
func (s *shell) run(status int, args ...string) (out, errs string) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(s.Context(), binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &stdout, &stderr
	err := cmd.Run()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		s.Fatalf("zae-limiter %v ended in %d, want %d\n%s%s", args, got, status, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

// says runs a command, and requires each text in its output.
func (s *shell) says(status int, command string, texts ...string) {
	s.Helper()
	out, errs := s.run(status, strings.Fields(command)...)
	for _, text := range texts {
		if !strings.Contains(squeeze(out+errs), text) {
			s.Errorf("zae-limiter %s does not say %q:\n%s%s", command, text, out, errs)
		}
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// prints runs a command with -o json into a value.
func prints[T any](s *shell, command string) (v T) {
	s.Helper()
	out, _ := s.run(0, append(strings.Fields(command), "-o", "json")...)
	check.Must(s, json.Unmarshal([]byte(out), &v), "zae-limiter %s: %s", command, out)
	return v
}

// From no table to an entity with limits under administration.
func TestFromNothingToALimitedService(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	name := engine.UniqueName("cli")
	t.Cleanup(func() { e.RemoveTable(t, name) })
	s := newShell(t, e, name)

	s.says(1, "namespace list", "There is no table", "zae-limiter table create")
	s.says(1, "table describe", "There is no table")
	s.says(0, "table create", "ACTIVE", "NEW_AND_OLD_IMAGES")
	s.says(0, "table create", "ACTIVE")
	s.says(0, "table check", "ACTIVE")
	s.says(1, "limits list", "zae-limiter namespace register default")
	s.says(0, "namespace register default", "default", "active")
	s.says(0, "namespace list", "default")

	s.says(3, "peek acme gpt-4", "zae-limiter limits set")
	s.says(3, "limits resolve acme gpt-4", "no limits configured")
	s.says(0, "limits set -y -r gpt-4 rpm=10 tpm=1000/m:2000", "* gpt-4 rpm 10 10 1m0s", "tpm 2000 1000 1m0s")
	s.says(0, "limits set -y -e acme -r gpt-4 rpm=20/h")
	s.says(0, "limits set -y --everybody images=blocked", "* * images", "blocked")
	s.says(0, "limits resolve acme gpt-4", "yes acme gpt-4 rpm 20", "no * gpt-4 tpm 2000")
	s.says(0, "limits list", "acme gpt-4 rpm", "* gpt-4 tpm", "* * images")
	s.says(0, "limits list -e acme", "acme gpt-4 rpm")
	s.says(0, "limits reach", "BUCKETS")

	l, err := limiter.Open(t.Context(), e.DynamoDB(), name, &limiter.Options{Timeout: time.Minute})
	check.Must(t, err)
	ask := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 15}}
	check.Must(t, check.Err(l.Acquire(t.Context(), ask)))
	check.MustBe(t, check.Err(l.Acquire(t.Context(), ask)), limiter.ErrLimited, "15 and 15 of 20")
	type bucket struct {
		Exists bool `json:"exists"`
		Levels []struct {
			Name      string `json:"name"`
			Remaining int64  `json:"remaining"`
			Used      int64  `json:"used"`
		} `json:"levels"`
	}
	got := prints[[]bucket](s, "peek acme gpt-4")
	if len(got) != 1 || !got[0].Exists || got[0].Levels[0].Remaining > 10 || got[0].Levels[0].Used != 15 {
		t.Errorf("peek: %+v", got)
	}
	s.says(0, "credit acme gpt-4 rpm=2", "rpm 2")
	s.says(0, "reset acme gpt-4 -y", "rpm")
	if got := prints[[]bucket](s, "peek acme gpt-4"); got[0].Levels[0].Remaining != 20 {
		t.Errorf("after the reset: %+v", got)
	}
	s.says(0, "limits delete -e acme -r gpt-4 --yes", "acme gpt-4 rpm")
	s.says(1, "limits get -e acme -r gpt-4", "not found")
	s.says(0, "audit -e acme --principal ignored", "bucket_reset", "bucket_credited", "limits_deleted", "limits_set")
}

func onTable(t *testing.T) *shell {
	e := engine.ForTest(t, engine.Dynoxide)
	s := newShell(t, e, e.Table(t).Name)
	s.run(0, "namespace", "register", "default")
	return s
}
