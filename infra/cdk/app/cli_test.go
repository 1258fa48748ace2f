package main

import (
	"os"
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

// TestSlowSynthThroughTheCLI runs the app as people do. A synthesis that takes
// longer than the threshold makes the constructs write to files that the tool
// names relative to its own folder, which is not the one that `go run -C` starts
// the app in.
func TestSlowSynthThroughTheCLI(t *testing.T) {
	repository, err := filepath.Abs(filepath.Join("..", root))
	check.Must(t, err)
	stray := filepath.Join(repository, "infra", "cdk", "cdk.out")
	if _, err := os.Stat(stray); err == nil {
		t.Fatalf("%s is there, and would hide what is tested; nothing writes to it any more: remove it", stray)
	}
	out := filepath.Join(t.TempDir(), "cdk.out")
	relative, err := filepath.Rel(repository, out)
	check.Must(t, err)
	cmd := exec.Command(filepath.Join("node_modules", ".bin", "cdk"), "synth", "--quiet", "--output", relative,
		"-c", "@aws-cdk/core.slowSynthThreshold=1")
	cmd.Dir = repository
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cdk synth: %v\n%s", err, said)
	}
	check.NoError(t, check.Err(os.Stat(filepath.Join(out, "manifest.json"))))
	if _, err := os.Stat(stray); err == nil {
		t.Errorf("the app wrote to %s", stray)
	}
}
