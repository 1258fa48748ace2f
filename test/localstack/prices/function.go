package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// built is the aggregator, except that a file is its clock.
type built struct {
	binary string
	clock  *os.File // eight bytes that the processes share
}

// forLambda is how the aggregator is built for Lambda, but for the architecture; likeTests is how
// tests are, with which it shares what is compiled already.
var (
	forLambda = []string{"-trimpath", "-buildvcs=false", "-tags", "lambda.norpc,nethttpomithttp2", "-ldflags",
		"-s -w -buildid="}
	likeTests = []string{"-buildvcs=false", "-tags", "lambda.norpc"}
)

// buildFunction builds into a folder.
func buildFunction(ctx context.Context, dir string, flags []string) (*built, error) {
	root, err := filepath.Abs(filepath.Join(engine.Root(), "..", ".."))
	if err != nil {
		return nil, err
	}
	clock, ours := "functions/internal/start/clock.go", "test/localstack/prices/testdata/clock.go"
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, clock): filepath.Join(root, ours),
	}})
	if err != nil {
		return nil, err
	}
	replaced := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(replaced, overlay, 0o600); err != nil {
		return nil, err
	}
	f := &built{binary: filepath.Join(dir, "bootstrap")}
	args := slices.Concat([]string{"build", "-overlay", replaced}, flags,
		[]string{"-o", f.binary, "./functions/aggregator"})
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir, build.Stderr = root, os.Stderr
	if slices.Equal(flags, forLambda) {
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the aggregator: %w", err)
	}
	f.clock, err = os.Create(filepath.Join(dir, "clock"))
	return f, err
}

// set sets the clock of all processes, epoch milliseconds.
func (f *built) set(now int64) error {
	_, err := f.clock.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(now)), 0)
	return err
}

func (f *built) env() []string { return []string{"VIRTUAL_CLOCK=" + f.clock.Name()} }
