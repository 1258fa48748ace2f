package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/emulator"
)

// withNPM has a shell script be npm.
func withNPM(t *testing.T, script string) {
	t.Helper()
	folder := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(folder, "npm"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// An emulator that is not there is installed by npm, once, into a folder that is made.
func TestEmulatorIsInstalled(t *testing.T) {
	within := filepath.Join("node_modules", emulator.Dynoxide.Package().Name)
	program := filepath.Join(withEmulator(t), within)
	folder := filepath.Join(t.TempDir(), "a", "b")
	asked := filepath.Join(t.TempDir(), "asked")
	withNPM(t, fmt.Sprintf("echo \"$@\" >> %[1]s && mkdir -p %[3]s && cp -r %[2]s/. %[3]s",
		quoted(asked), quoted(program), quoted(filepath.Join(folder, within))))
	s := &shell{T: t}
	_, errs := s.run(0, dev(folder, "--no-functions", "--", "true")...)
	check.Equal(t, errs, "installing @dynoxide/linux-x64 1.2.1 into "+folder+"\n", "said")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm()&0o700 != 0o700 {
		t.Errorf("the folder is not its owner's: %v, %v", info, err)
	}
	if _, errs = s.run(0, dev(folder, "--no-functions", "--", "true")...); errs != "" {
		t.Errorf("the second time: %s", errs)
	}
	want := "install --prefix " + folder + " --no-audit --no-fund --ignore-scripts --loglevel=error --no-save " +
		"@dynoxide/linux-x64@1.2.1\n"
	if got, err := os.ReadFile(asked); err != nil || string(got) != want {
		t.Errorf("npm was asked %q, want %q, %v", got, want, err)
	}
}

// Why there is no emulator is said.
func TestEmulatorCannotBeInstalled(t *testing.T) {
	noAWS(t)
	folder, asked := t.TempDir(), filepath.Join(t.TempDir(), "asked")
	s := &shell{T: t}
	withNPM(t, "echo asked > "+quoted(asked)+"; echo no network; exit 4")
	s.says(failed, strings.Join(dev(filepath.Join(os.DevNull, "below")), " "), "not a directory")
	if _, err := os.Stat(asked); err == nil {
		t.Error("npm was asked to install below a file")
	}
	s.says(failed, strings.Join(dev(folder), " "),
		"no local DynamoDB: dynoxide is not installed: npm: exit status 4: no network")
	t.Setenv("PATH", t.TempDir())
	s.says(failed, strings.Join(dev(folder), " "), "no local DynamoDB: dynoxide is not installed in "+folder+", and npm")
}
