//go:build deploy

package cdk

import (
	"debug/elf"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestFunctionsAreBuiltFromTheSource: if properties name no programs, the functions of the required
// version are built.
func TestFunctionsAreBuiltFromTheSource(t *testing.T) {
	compiled, err := goTool("", "env", "GOCACHE")
	check.Must(t, err)
	t.Setenv("GOCACHE", compiled) // the next test would have this folder, empty
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := build("archiver")
	check.Must(t, err)
	program, err := elf.Open(filepath.Join(dir, "bootstrap"))
	check.Must(t, err)
	defer program.Close()
	check.Equal(t, program.Machine, elf.EM_AARCH64, "built for")
	check.Says(t, check.Err(build("none")), "go build")
}
