package cdk_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const rootModule = "github.com/zeroae/zae-limiter-go"

// TestAnotherModuleImportsTheConstruct makes a release of both modules as the README
// tells, and a module elsewhere that requires it and has no replace.
func TestAnotherModuleImportsTheConstruct(t *testing.T) {
	version := fmt.Sprintf("v0.0.0-%s-000000000000", time.Now().UTC().Format("20060102150405"))
	proxy, elsewhere := t.TempDir(), t.TempDir()
	release(t, proxy, rootModule, version, filepath.Join("..", ".."))
	release(t, proxy, rootModule+"/infra/cdk", version, ".")
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	own := released(string(mod), "example.com/platform", version)
	own += "\nrequire " + rootModule + "/infra/cdk " + version + "\n"
	for name, text := range map[string]string{
		"go.mod": own, "go.sum": string(sum),
		"platform.go": "package platform\n\nimport \"" + rootModule + "/infra/cdk\"\n\nvar _ = cdk.New\n",
	} {
		if err := os.WriteFile(filepath.Join(elsewhere, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	others, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-mod=mod", ".")
	cmd.Dir = elsewhere
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+proxy+","+strings.TrimSpace(string(others)), "GOWORK=off",
		"GONOSUMDB="+rootModule+","+rootModule+"/*", "GOFLAGS=-modcacherw")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// released returns a go.mod as it is tagged: of that module, and with the root in
// that version in place of a replace.
func released(mod, module, version string) string {
	var out []string
	for line := range strings.Lines(mod) {
		switch {
		case strings.HasPrefix(line, "module "):
			line = "module " + module + "\n"
		case strings.HasPrefix(line, "replace "):
			continue
		case strings.HasPrefix(line, "\t"+rootModule+" "):
			line = "\t" + rootModule + " " + version + "\n"
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// release puts a version of a module into a folder that serves as module proxy.
func release(t *testing.T, proxy, module, version, folder string) {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	text := released(string(mod), module, version)
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		version + ".mod": []byte(text), version + ".info": info, "list": []byte(version + "\n"),
		version + ".zip": archive(t, folder, module+"@"+version, text),
	} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// archive returns the files of a module that are in the repository.
func archive(t *testing.T, folder, prefix, mod string) []byte {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = folder
	list, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range strings.Fields(string(list)) {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || nested(folder, name) {
			continue // deleted, or of another module
		}
		if name == "go.mod" {
			text = []byte(mod)
		}
		w, err := z.Create(prefix + "/" + name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// nested reports whether a file belongs to a module further down.
func nested(folder, name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(folder, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}
