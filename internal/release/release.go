// Package release makes module versions from a working tree, as a tag would. The release command
// and tests that act as users of a version use it. It writes the versions to a folder that serves
// as module proxy.
package release

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Root is the path of the root module; the other modules are below it.
const Root = "github.com/zeroae/zae-limiter-go"

// Nested lists the folders of the modules that are tagged together with the root. Each of them
// requires only the root.
var Nested = []string{"grpclimit", "otellimit", "infra/cdk", "cmd/zae-limiter"}

// Module returns the path of the module in a folder below the root.
func Module(folder string) string { return path.Join(Root, folder) }

// Tag returns the tag of a version of the module in a folder.
func Tag(folder, version string) string { return path.Join(folder, version) }

// Mod returns a go.mod in its tagged form: without a replace, and requiring our own modules in that
// version.
func Mod(text, version string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		switch {
		case strings.HasPrefix(line, "replace "):
			continue
		case len(fields) >= 2 && (fields[0] == Root || strings.HasPrefix(fields[0], Root+"/")):
			line = strings.Replace(line, fields[1], version, 1)
		}
		out.WriteString(line)
	}
	return out.String()
}

// Publish writes the modules in some folders below root to the folder proxy; "" is the root module.
// It includes all files that git tracks or does not ignore.
func Publish(proxy, root, version string, folders ...string) error {
	for _, folder := range folders {
		if err := publish(proxy, root, folder, version); err != nil {
			return fmt.Errorf("module %s: %w", Module(folder), err)
		}
	}
	return nil
}

func publish(proxy, root, folder, version string) error {
	mod, err := os.ReadFile(filepath.Join(root, folder, "go.mod"))
	if err != nil {
		return err
	}
	text := Mod(string(mod), version)
	archived, err := archive(root, folder, version, text)
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(Module(folder)), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		version + ".mod": []byte(text), version + ".info": info, version + ".zip": archived, "list": []byte(version + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// archive returns the zip file of a module in the form of the go command: the files of the folder
// without nested modules, and the licence of the root.
func archive(root, folder, version, mod string) ([]byte, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = filepath.Join(root, folder)
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, text []byte) error {
		w, err := z.Create(Module(folder) + "@" + version + "/" + name)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	for _, name := range names {
		file := filepath.Join(cmd.Dir, name)
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || within(cmd.Dir, name) {
			continue // deleted, or in another module
		}
		text, err := os.ReadFile(file)
		if name == "go.mod" {
			text = []byte(mod)
		}
		if err == nil {
			err = add(name, text)
		}
		if err != nil {
			return nil, err
		}
	}
	if !slices.Contains(names, "LICENSE") {
		text, err := os.ReadFile(filepath.Join(root, "LICENSE"))
		if err == nil {
			err = add("LICENSE", text)
		}
		if err != nil {
			return nil, err
		}
	}
	err = z.Close()
	return b.Bytes(), err
}

// within reports whether a file belongs to a nested module.
func within(folder, name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(folder, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// Environ returns the environment in which the go command finds the modules in the folder proxy,
// and all others where it usually does.
func Environ(proxy string) ([]string, error) {
	others, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return append(os.Environ(), "GOPROXY=file://"+filepath.ToSlash(proxy)+","+strings.TrimSpace(string(others)),
		"GONOSUMDB="+Root+","+Root+"/*", "GOWORK=off", "GOFLAGS=-modcacherw"), nil
}

// Forget removes a version from this machine's module cache, where a build in Environ put it.
func Forget(version string) error {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	cache := strings.TrimSpace(string(out))
	for _, folder := range append([]string{""}, Nested...) {
		module := filepath.FromSlash(Module(folder))
		kept, err := filepath.Glob(filepath.Join(cache, "cache", "download", module, "@v", version+".*"))
		if err != nil {
			return err
		}
		for _, file := range append(kept, filepath.Join(cache, module+"@"+version)) {
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	return nil
}
