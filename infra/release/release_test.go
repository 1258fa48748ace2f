//go:build release

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/release"
)

// user is a program that imports the released modules, without a replace.
const user = `package main

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/otellimit"
	"github.com/zeroae/zae-limiter-go/streams"
	"github.com/zeroae/zae-limiter-go/streams/poll"
)

func open(ctx context.Context, db admin.DynamoDB) (*limiter.Limiter, error) {
	o, err := otellimit.New(otellimit.Options{})
	if err != nil {
		return nil, err
	}
	return limiter.Open(ctx, db, "limits", &limiter.Options{Observe: o.Observe, Register: true})
}

func main() {
	_ = []any{grpclimit.Unary, httplimit.RateLimit, manifest.Parse, limitertable.Create, streams.New, poll.Run}
	fmt.Println(limiter.PerMinute("rpm", 600))
}
`

// stack is a CDK app that declares the limiter.
const stack = `package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
)

func main() {
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String("out")})
	code := awslambda.Code_FromAsset(jsii.String("program"), nil)
	cdk.New(awscdk.NewStack(app, jsii.String("Platform"), nil), "Limits", &cdk.Props{
		Code: cdk.Code{Aggregator: code, Archiver: code, Setup: code},
	})
	app.Synth(nil)
}
`

const userTest = `package main

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestOpen(t *testing.T) {
	l, err := open(t.Context(), limitertest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Allow(t.Context(), "acme", limiter.PerMinute("rpm", 1)); err != nil {
		t.Error(err)
	}
}
`

// TestRelease tags a version of what is committed, builds its programs, and then is a user
// of it: a module that requires all of it, a test with limitertest, a stack with the construct,
// and the tool installed.
func TestRelease(t *testing.T) {
	version := fmt.Sprintf("v0.0.%d", time.Now().Unix())
	root, err := filepath.Abs(filepath.Join("..", ".."))
	check.Must(t, err)
	somebody := write(t, filepath.Join(t.TempDir(), "gitconfig"), "[user]\nname=a\nemail=a@example.com\n")
	t.Setenv("GIT_CONFIG_GLOBAL", somebody)
	clone := filepath.Join(t.TempDir(), "clone")
	runs(t, root, nil, "git", "clone", "--quiet", root, clone)
	r := &run{root: clone, version: version, platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}, out: t.Output()}
	if err := r.all(t.Context()); err == nil || !strings.Contains(err.Error(), "CHANGELOG.md has no heading") {
		t.Fatalf("without a word in the changelog: %v", err)
	}
	write(t, filepath.Join(clone, "CHANGELOG.md"), "# Changelog\n\n## "+version+"\n")
	if err := r.all(t.Context()); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Fatalf("with a change: %v", err)
	}
	runs(t, clone, nil, "git", "commit", "--quiet", "--all", "--message", "CHANGELOG: "+version)
	check.Must(t, r.all(t.Context()))
	t.Cleanup(func() {
		check.NoError(t, release.Forget(version))
	})
	if err := r.all(t.Context()); err == nil || !strings.Contains(err.Error(), "never moved") {
		t.Errorf("again: %v", err)
	}
	summed(t, filepath.Join(clone, "dist", "release"))
	got := runs(t, clone, nil, "git", "diff", "--name-only", version, "cmd/zae-limiter/"+version)
	if !strings.Contains(got, "cmd/zae-limiter/go.mod\n") || strings.Contains(got, ".go\n") {
		t.Errorf("the tags differ in code:\n%s", got)
	}

	// As a user gets it: the modules at their tags, from a module proxy.
	runs(t, clone, nil, "git", "checkout", "--quiet", "cmd/zae-limiter/"+version)
	proxy := t.TempDir()
	check.Must(t, release.Publish(proxy, clone, version, append([]string{""}, release.Nested...)...))
	env, err := release.Environ(proxy)
	check.Must(t, err)
	elsewhere, bin := t.TempDir(), t.TempDir()
	mod, sum := "module example.com/user\n\ngo 1.26.0\n", ""
	for _, folder := range append([]string{""}, release.Nested...) {
		if folder != "cmd/zae-limiter" {
			mod += fmt.Sprintf("\nrequire %s %s\n", release.Module(folder), version)
		}
		text, err := os.ReadFile(filepath.Join(root, folder, "go.sum"))
		check.Must(t, err)
		sum += string(text)
	}
	write(t, filepath.Join(elsewhere, "go.mod"), mod)
	write(t, filepath.Join(elsewhere, "go.sum"), sum)
	write(t, filepath.Join(elsewhere, "main.go"), user)
	write(t, filepath.Join(elsewhere, "main_test.go"), userTest)
	check.Equal(t, runs(t, elsewhere, env, "go", "run", "-mod=mod", "."), "rpm: 600 per 1m0s, capacity 600\n",
		"the program says")
	runs(t, elsewhere, env, "go", "test", "-mod=mod", ".")
	write(t, filepath.Join(elsewhere, "stack", "main.go"), stack)
	write(t, filepath.Join(elsewhere, "program", "bootstrap"), "program")
	runs(t, elsewhere, append(env, "CDK_HOME="+t.TempDir()), "go", "run", "-mod=mod", "./stack")
	template, err := os.ReadFile(filepath.Join(elsewhere, "out", "Platform.template.json"))
	if err != nil || !strings.Contains(string(template), `"AWS::DynamoDB::Table"`) {
		t.Errorf("the stack has no table: %v", err)
	}
	runs(t, elsewhere, append(env, "GOBIN="+bin), "go", "install", release.Module("cmd/zae-limiter")+"@"+version)
	if got := runs(t, elsewhere, env, filepath.Join(bin, "zae-limiter"), "version"); !strings.Contains(got, version) {
		t.Errorf("the tool says %q", got)
	}
}

// summed compares the sums with the files: the tool for one platform, three functions, the template of the
// stack that names them.
func summed(t *testing.T, dist string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	check.Must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	check.Equal(t, len(lines), 5, "files: %s", text)
	templates, err := filepath.Glob(filepath.Join(dist, "*.template.json"))
	if err != nil || len(templates) != 1 {
		t.Fatalf("templates %q, %v", templates, err)
	}
	template, err := os.ReadFile(templates[0])
	check.Must(t, err)
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if strings.HasSuffix(name, ".zip") && !strings.Contains(string(template), "${CodePrefix}"+name) {
			t.Errorf("the template does not name %s", name)
		}
		program, err := os.ReadFile(filepath.Join(dist, name))
		if got := fmt.Sprintf("%x", sha256.Sum256(program)); err != nil || got != sum {
			t.Errorf("%s: %s, %v", line, got, err)
		}
	}
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	check.Must(t, err)
	return file
}

// runs runs a command and returns what it says.
func runs(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}
