package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tagged reports whether there is a version: CHANGELOG.md has a heading for each.
func tagged(pages map[string]string) bool {
	return strings.Contains(pages["../CHANGELOG.md"], "\n## v")
}

var fetches = regexp.MustCompile(`go (?:get|install|run) (?:github\.com/zeroae/zae-limiter-go|…)\S*`)

// TestCommandsFetchNoMissingVersion: until a version is tagged, no command on a page fetches one from
// elsewhere, but for the pages that say how a version will be made and used.
func TestCommandsFetchNoMissingVersion(t *testing.T) {
	all := pages(t)
	if tagged(all) {
		return
	}
	for name, text := range all {
		for _, command := range fetches.FindAllString(strings.Join(strings.Fields(text), " "), -1) {
			if !strings.Contains(command, "@vX.Y.Z") {
				t.Errorf("%s says %s: no version is tagged", name, command)
			}
		}
	}
}

// TestFirstCommandsOfTheReadmeWork: what follows the clone runs in it, and the command for a module
// makes one beside the clone that compiles.
func TestFirstCommandsOfTheReadmeWork(t *testing.T) {
	_, section, _ := strings.Cut(pages(t)["../README.md"], "## Try it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	for line := range strings.Lines(section) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			command, _, _ = strings.Cut(command, "#")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if len(commands) != 3 || !strings.HasPrefix(commands[0], "git clone ") {
		t.Fatalf("the first commands are %q, want a clone, the tool, and a module", commands)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	run := func(dir, command string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "bash", "-ec", command)
		c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	if commands[1] != "make tool && dist/zae-limiter dev" {
		t.Errorf("the second command is %s", commands[1])
	}
	run(root, "make -n tool && go -C cmd/zae-limiter run . dev --help")
	beside := t.TempDir()
	app := filepath.Join(beside, "app")
	sums, err := os.ReadFile("../go.sum") // so that no sum is looked up elsewhere
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(app, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(beside, "zae-limiter-go")); err != nil {
		t.Fatal(err)
	}
	program := "package main\n\nimport \"github.com/zeroae/zae-limiter-go/limiter\"\n\n" +
		"func main() { _ = limiter.PerSecond(\"rps\", 10) }\n"
	for name, text := range map[string]string{"main.go": program, "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(app, "go mod init example.com/app && "+commands[2]+" && go build -o /dev/null .")
}
