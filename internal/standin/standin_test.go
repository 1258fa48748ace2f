package standin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installed returns a folder in which a shell script is the program of Dynoxide.
func installed(t *testing.T, script string) string {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// A stand-in that ends at once, because its port is taken for example, is started anew on
// another port. What it has said at last is in the error.
func TestStartTriesOtherPorts(t *testing.T) {
	folder := installed(t, `echo "$4" >> "$0.ports"; echo no luck; exit 3`)
	_, err := Start(t.Context(), Dynoxide, folder, 0)
	if err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("got %v, want what it has said", err)
	}
	tried := func() int {
		said, err := os.ReadFile(filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide.ports"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(said), "\n")
	}
	if n := tried(); n != 10 {
		t.Errorf("tried %d times, want 10", n)
	}
	if _, err := Start(t.Context(), Dynoxide, folder, 1); err == nil || tried() != 11 {
		t.Errorf("a port that was asked for: %v, tried %d times more, want once", err, tried()-10)
	}
}

func TestStartSaysWhatIsNotInstalled(t *testing.T) {
	folder := t.TempDir()
	for _, kind := range []Kind{Dynoxide, DynamoDBLocal} {
		_, err := Start(t.Context(), kind, folder, 0)
		if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: got %v, want that it is not installed in %s", kind, err, folder)
		}
	}
	if _, err := Start(t.Context(), "moto", folder, 0); err == nil || !strings.Contains(err.Error(), "dynoxide") {
		t.Errorf("another kind: %v", err)
	}
}

// Nothing is started for a caller that has gone, and nothing is tried again.
func TestStartEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Dynoxide, installed(t, "exec sleep 1000"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the caller has gone", err)
	}
}
