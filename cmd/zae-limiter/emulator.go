package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/zeroae/zae-limiter-go/internal/emulator"
)

// defaultEngine is an emulator that runs on this machine.
func defaultEngine() emulator.Kind {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return emulator.Dynoxide
	}
	return emulator.DynamoDBLocal
}

// startEmulator starts an emulator from the folder, and installs it there with npm if it is
// missing. With port zero it takes a free port.
func (a *app) startEmulator(ctx context.Context, engine emulator.Kind, folder string, port int) (
	*emulator.Server, error) {
	if _, err := emulator.Find(engine, folder); errors.Is(err, emulator.ErrNotInstalled) {
		if err := a.installEmulator(ctx, engine, folder); err != nil {
			return nil, err
		}
	}
	return emulator.Start(ctx, engine, folder, port)
}

func (a *app) installEmulator(ctx context.Context, engine emulator.Kind, folder string) error {
	pkg := engine.Package()
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("no local DynamoDB: %s is %w in %s, and npm, which would install it, is not there", engine,
			emulator.ErrNotInstalled, folder)
	}
	a.say("installing %s %s into %s", pkg.Name, pkg.Version, folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	install := exec.CommandContext(ctx, npm, "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts",
		"--loglevel=error", "--no-save", pkg.Name+"@"+pkg.Version)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("no local DynamoDB: %s is %w: npm: %w: %s", engine, emulator.ErrNotInstalled, err,
			bytes.TrimSpace(out))
	}
	return nil
}
