package cdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

const rootModule = "github.com/zeroae/zae-limiter-go"

func code(function string, given awslambda.Code) awslambda.Code {
	if given != nil {
		return given
	}
	dir, err := build(function)
	if err != nil {
		panic(fmt.Errorf("build function %s: %w; Props.Code takes one that is built already", function, err))
	}
	return awslambda.Code_FromAsset(jsii.String(dir), nil)
}

// build builds a function of the root module, in the version that the module of the current folder
// requires, and returns its folder. The go tool repeats no work, and the bytes depend only on the
// version, so another synthesis finds the same asset.
func build(function string) (dir string, err error) {
	source, err := goTool("", "list", "-m", "-f", "{{.Dir}}", rootModule)
	if err != nil {
		return "", err
	}
	if source == "" {
		if _, err = goTool("", "mod", "download", rootModule); err != nil {
			return "", err
		}
		if source, err = goTool("", "list", "-m", "-f", "{{.Dir}}", rootModule); err != nil {
			return "", err
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = programFolder(cache, source, function)
	_, err = goTool(source, "build", "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc,nethttpomithttp2",
		"-ldflags", "-s -w -buildid=", "-o", filepath.Join(dir, "bootstrap"), "./functions/"+function)
	return dir, err
}

// programFolder returns the folder in which a program is built. It includes the source folder,
// which names the version, so versions do not share a program.
func programFolder(cache, source, function string) string {
	version := sha256.Sum256([]byte(source))
	return filepath.Join(cache, "zae-limiter-go", "functions", hex.EncodeToString(version[:8]), function)
}

// goTool runs the go command for Lambda's platform and returns its output.
func goTool(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64", "GOFLAGS=-mod=readonly", "GOWORK=off")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
