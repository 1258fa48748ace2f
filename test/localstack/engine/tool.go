package engine

import (
	"os"
	"os/exec"
	"path/filepath"
)

// WithTool builds the command-line tool into a temporary folder, and calls run with its path. It
// panics if the build fails.
func WithTool(run func(tool string) (code int)) (code int) {
	dir, err := os.MkdirTemp("", "zae-limiter")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	tool := filepath.Join(dir, "zae-limiter")
	build := exec.Command("go", "build", "-o", tool, ".")
	build.Dir = filepath.Join(Root(), "..", "..", "cmd", "zae-limiter")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return run(tool)
}
