// Release tags a version and builds its programs:
//
//	go run ./infra/release -version v0.1.0
//
// It tags the current commit, once the changelog has a heading for the version. The root module is
// tagged as it is. The nested modules find it with a replace in this repository, so they are tagged
// on a commit outside the branch, in which they require that version instead. Before that it builds
// every module without a replace. It leaves the tool for five platforms, the functions and a
// CloudFormation template of the stack, with their SHA-256 sums, in dist/release. Nothing is
// pushed: the last line explains how.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	version := flag.String("version", "", "the version, like v0.1.0")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64",
		"which the tool is built for")
	flag.Parse()
	r := &run{root: ".", version: *version, platforms: strings.Split(*platforms, ","), out: os.Stdout}
	err := r.all(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type run struct {
	root, version string
	platforms     []string
	out           io.Writer
	tree          string // a separate working tree in which the modules are changed
}

func (r *run) all(ctx context.Context) (err error) {
	if err := r.ready(ctx); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r.tree = filepath.Join(tmp, "tree")
	if _, err := r.git(ctx, r.root, "worktree", "add", "--quiet", "--detach", r.tree); err != nil {
		return err
	}
	defer func() {
		_, gone := r.git(context.WithoutCancel(ctx), r.root, "worktree", "remove", "--force", r.tree)
		err = errors.Join(err, gone, release.Forget(r.version))
	}()
	if err := r.modules(ctx, filepath.Join(tmp, "proxy")); err != nil {
		return err
	}
	if err := r.programs(ctx); err != nil {
		return err
	}
	return r.tag(ctx)
}

var (
	versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-rc\.[0-9]+)?$`)
	errReady = errors.New("not ready")
)

// ready checks that the current commit can be released, and reports everything that is missing.
func (r *run) ready(ctx context.Context) error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("%w: the version is %q, want one like v0.1.0 or v0.1.0-rc.1", errReady, r.version)
	}
	var missing []error
	dirty, err := r.git(ctx, r.root, "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		missing = append(missing, fmt.Errorf("%w: not committed:\n%s", errReady, dirty))
	}
	log, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(r.version) + `\b`).Match(log) {
		missing = append(missing, fmt.Errorf("%w: CHANGELOG.md has no heading \"## %s\"", errReady, r.version))
	}
	there, err := r.git(ctx, r.root, append([]string{"tag", "--list"}, r.tags()...)...)
	if err != nil {
		return err
	}
	if there != "" {
		missing = append(missing, fmt.Errorf("%w: a tag is never moved: %s", errReady,
			strings.Join(strings.Fields(there), ", ")))
	}
	return errors.Join(missing...)
}

// tags returns the tags of all modules, the root's first.
func (r *run) tags() []string {
	out := []string{r.version}
	for _, folder := range release.Nested {
		out = append(out, release.Tag(folder, r.version))
	}
	return out
}

// modules makes the nested modules require the root in the version, and builds them.
func (r *run) modules(ctx context.Context, proxy string) error {
	env, err := release.Environ(proxy)
	if err == nil {
		err = release.Publish(proxy, r.tree, r.version, "")
	}
	if err != nil {
		return err
	}
	for _, folder := range release.Nested {
		file := filepath.Join(r.tree, folder, "go.mod")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(release.Mod(string(text), r.version)), 0o644)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(r.out, "build %s\n", release.Module(folder))
		for _, args := range [][]string{{"mod", "tidy"}, {"build", "./..."}} {
			if err := r.command(ctx, filepath.Join(r.tree, folder), env, "go", args...); err != nil {
				return err
			}
		}
		if err := release.Publish(proxy, r.tree, r.version, folder); err != nil {
			return err
		}
	}
	return nil
}

// programs builds the tool and the functions into dist/release, with their sums.
func (r *run) programs(ctx context.Context) error {
	dist, err := filepath.Abs(filepath.Join(r.root, "dist", "release"))
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dist), os.MkdirAll(dist, 0o755)); err != nil {
		return err
	}
	flags := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.release=" + r.version}
	build := func(platform, folder, name string, more ...string) error {
		system, machine, _ := strings.Cut(platform, "/")
		env := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+system, "GOARCH="+machine)
		fmt.Fprintf(r.out, "build %s\n", name)
		args := slices.Concat(flags, more, []string{"-o", filepath.Join(dist, name), "."})
		return r.command(ctx, filepath.Join(r.tree, folder), env, "go", args...)
	}
	for _, platform := range r.platforms {
		name := "zae-limiter-" + r.version + "-" + strings.ReplaceAll(platform, "/", "-")
		if strings.HasPrefix(platform, "windows/") {
			name += ".exe"
		}
		if err := build(platform, "cmd/zae-limiter", name); err != nil {
			return err
		}
	}
	for _, function := range release.Functions {
		const tags = "lambda.norpc,nethttpomithttp2"
		if err := build("linux/arm64", "functions/"+function, function, "-tags", tags); err != nil {
			return err
		}
		if err := pack(dist, function, r.version); err != nil {
			return err
		}
	}
	if err := r.template(dist); err != nil {
		return err
	}
	return sums(dist)
}

// pack puts a function into an archive for Lambda.
func pack(dist, function, version string) error {
	file := filepath.Join(dist, function)
	program, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	packed, err := release.Zip(program)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dist, release.Archive(function, version)), packed, 0o644),
		os.Remove(file))
}

// template writes the stack as a template that needs only CloudFormation.
func (r *run) template(dist string) error {
	text, err := os.ReadFile(filepath.Join(r.tree, "infra", "cdk", "app", "template.golden.json"))
	if err != nil {
		return err
	}
	if text, err = release.Template(text, r.version); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, "zae-limiter-"+r.version+".template.json"), text, 0o644)
}

// sums writes the SHA-256 sums of all files in a folder, in the format of sha256sum -c.
func sums(dist string) error {
	files, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dist, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte(out.String()), 0o644)
}

// tag tags the root in its place, and the others on a separate commit, which is made first, because
// it may fail.
func (r *run) tag(ctx context.Context) error {
	what := "release " + r.version
	for _, args := range [][]string{
		{"-C", r.tree, "commit", "--quiet", "--all", "--no-verify", "--message", "require the root module in " + r.version},
		{"-C", r.root, "tag", "--annotate", "--message", what, r.version},
	} {
		if _, err := r.git(ctx, ".", args...); err != nil {
			return err
		}
	}
	for _, folder := range release.Nested {
		if _, err := r.git(ctx, r.tree, "tag", "--annotate", "--message", what, release.Tag(folder, r.version)); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.out, "\ntagged; programs and sums are in dist/release. To publish:\n    git push origin %s\n",
		strings.Join(r.tags(), " "))
	return nil
}

func (r *run) git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

func (r *run) command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s in %s: %w: %s", name, strings.Join(args, " "), dir, err, out)
	}
	return nil
}
