package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/zeroae/zae-limiter-go/internal/standin"
)

// defaultEngine is the stand-in that runs on this machine.
func defaultEngine() standin.Kind {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return standin.Dynoxide
	}
	return standin.DynamoDBLocal
}

// startStandIn starts a stand-in from the folder, into which it is installed by npm if it
// is not there. A port of zero is a free one.
func (a *app) startStandIn(ctx context.Context, engine standin.Kind, folder string, port int) (
	*standin.Server, error) {
	if _, err := standin.Find(engine, folder); errors.Is(err, standin.ErrNotInstalled) {
		if err := a.installStandIn(ctx, engine, folder); err != nil {
			return nil, err
		}
	}
	return standin.Start(ctx, engine, folder, port)
}

func (a *app) installStandIn(ctx context.Context, engine standin.Kind, folder string) error {
	pkg := engine.Package()
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("no local DynamoDB: %s is %w in %s, and npm, which would install it, is not there", engine,
			standin.ErrNotInstalled, folder)
	}
	a.say("installing %s %s into %s", pkg.Name, pkg.Version, folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	install := exec.CommandContext(ctx, npm, "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts",
		"--loglevel=error", "--no-save", pkg.Name+"@"+pkg.Version)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("no local DynamoDB: %s is %w: npm: %w: %s", engine, standin.ErrNotInstalled, err,
			bytes.TrimSpace(out))
	}
	return nil
}
