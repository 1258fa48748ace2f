//go:build deploy

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// TestBinarySize: each deployed binary is under 12 MB.
func TestBinarySize(t *testing.T) {
	const largest = 12_000_000 // bytes
	for _, name := range []string{"aggregator", "archiver"} {
		info, err := os.Stat(filepath.Join(engine.Root(), "..", "..", "dist", name, "bootstrap"))
		check.Must(t, err)
		t.Logf("%s: linux/arm64 binary %d bytes, target under %d", name, info.Size(), largest)
		if info.Size() >= largest {
			t.Errorf("%s: %d bytes, want less than %d", name, info.Size(), largest)
		}
	}
}

// TestSlowSynthThroughTheCLI runs the app as users do. If a synthesis takes longer than the
// threshold, the constructs write to files that the tool names relative to its own folder, but `go
// run -C` starts the app in another folder.
func TestSlowSynthThroughTheCLI(t *testing.T) {
	repository, err := filepath.Abs(filepath.Join(engine.Root(), "..", ".."))
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
	cmd.Env = append(os.Environ(), "CDK_HOME="+t.TempDir(), "TMPDIR="+t.TempDir(),
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cdk synth: %v\n%s", err, said)
	}
	check.NoError(t, check.Err(os.Stat(filepath.Join(out, "manifest.json"))))
	if _, err := os.Stat(stray); err == nil {
		t.Errorf("the app wrote to %s", stray)
	}
}
