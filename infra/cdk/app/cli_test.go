package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestTargetsPassOnOptions: what looks at an account, or makes a template, does it with the
// profile and the options that the other targets have. Keys of the environment, which may be those of
// another account, do not count beside a profile.
func TestTargetsPassOnOptions(t *testing.T) {
	const flags = "--profile staging -c zae-limiter:tableName=prod"
	const as = "env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY -u AWS_SESSION_TOKEN AWS_PROFILE=staging "
	commands := map[string]int{"synth": 1, "diff": 1, "destroy": 1, "deploy": 3, "bootstrap": 1, "replay": 1}
	for target, runs := range commands {
		cmd := exec.Command("make", "-n", "-C", filepath.Join("..", root), target, "CDKFLAGS="+flags)
		said, err := cmd.Output()
		check.Must(t, err)
		for line := range strings.Lines(string(said)) {
			tool, replay := strings.Contains(line, "bin/cdk "), strings.Contains(line, ". replay")
			if !tool && !replay && !strings.Contains(line, "./app/protect") {
				continue
			}
			runs--
			profile := target == "bootstrap" || strings.Contains(line, as)
			if !profile || !replay && !strings.Contains(line, flags) {
				t.Errorf("make %s: %s", target, line)
			}
		}
		check.Equal(t, runs, 0, "make %s: commands more than that were expected", target)
	}
}
