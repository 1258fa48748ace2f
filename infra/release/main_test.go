package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestInvalidVersionsAreRefused(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.1.0.0", "v0.1.0-beta", "v0.1.0 "} {
		if err := (&run{root: ".", version: version}).ready(t.Context()); err == nil {
			t.Errorf("%q is accepted", version)
		}
	}
}

// A release that cannot be committed, for want of a key to sign with, leaves no tag: the next try would take
// it for a release that was made.
func TestFailedReleasesLeaveNoTag(t *testing.T) {
	config := filepath.Join(t.TempDir(), "gitconfig")
	text := "[user]\nname=a\nemail=a@example.com\n[commit]\ngpgsign=true\n[gpg]\nprogram=false\n"
	check.Must(t, os.WriteFile(config, []byte(text), 0o600))
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	r := &run{root: t.TempDir(), version: "v0.1.0", out: io.Discard, tree: filepath.Join(t.TempDir(), "tree")}
	for _, args := range [][]string{
		{"init", "--quiet"}, {"commit", "--quiet", "--allow-empty", "--no-gpg-sign", "--message", "first"},
		{"worktree", "add", "--quiet", "--detach", r.tree},
	} {
		check.Must(t, check.Err(r.git(t.Context(), r.root, args...)))
	}
	check.Must(t, os.WriteFile(filepath.Join(r.tree, "go.mod"), []byte("module m\n"), 0o600))
	check.Must(t, check.Err(r.git(t.Context(), r.tree, "add", "go.mod")))
	if err := r.tag(t.Context()); err == nil {
		t.Fatal("it is committed")
	}
	if tags, err := r.git(t.Context(), r.root, "tag"); err != nil || tags != "" {
		t.Errorf("tags %q, error %v", tags, err)
	}
}
