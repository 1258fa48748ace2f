package arch

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Who imports the client gets the root module's requirements to see. What only
// tests need belongs into the module test.
func TestRootModuleRequiresOnlyWhatIsShipped(t *testing.T) {
	deps := goList(t, "-deps", "./limiter/...", "./admin/...", "./streams/...", "./functions/...")
	mods := goList(t, "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	if len(mods) == 0 {
		t.Fatal("the root module requires nothing")
	}
	for _, mod := range mods {
		if !slices.ContainsFunc(deps, func(dep string) bool { return strings.HasPrefix(dep+"/", mod+"/") }) {
			t.Errorf("go.mod requires %s, which neither client nor administration, aggregator nor functions import", mod)
		}
	}
}

// goList returns the lines that go list prints in the root of the module.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root(t)
	out, err := cmd.Output()
	check.Must(t, err, "go list %v", args)
	return strings.Fields(string(out))
}

// TestEveryModuleIsChecked holds `make lint` and `make vuln` to all modules of the
// repository, and `make test` to all that have tests outside of infra/cdk, which has
// a target of its own.
func TestEveryModuleIsChecked(t *testing.T) {
	all := variable(t, "MODULES")
	checked := slices.Concat(all, variable(t, "TESTED"))
	modules := 0
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", "dist", "cdk.out", ".git", ".cache"}, d.Name()):
			return filepath.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		modules++
		folder, err := filepath.Rel(root(t), filepath.Dir(path))
		if !slices.Contains(checked, filepath.ToSlash(folder)) {
			t.Errorf("module %s is in neither TESTED nor MODULES of the Makefile", folder)
		}
		return err
	})
	check.Must(t, err)
	if modules < 7 {
		t.Errorf("only %d modules found", modules)
	}
	if !slices.Contains(all, "$(TESTED)") {
		t.Error("MODULES does not begin with all that is tested")
	}
}

// variable returns the words of a variable of the Makefile.
func variable(t *testing.T, name string) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	check.Must(t, err)
	found := regexp.MustCompile(`(?m)^` + name + ` *:= (.*)$`).FindSubmatch(makefile)
	if found == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.Fields(string(found[1]))
}

// TestRaceCoversPackagesWithGoroutines: `make test-race` runs every package of the root module
// that starts a goroutine, itself or in its tests. In the others the race detector has
// nothing to look at.
func TestRaceCoversPackagesWithGoroutines(t *testing.T) {
	raced := goList(t, append([]string{"-f", "{{.ImportPath}}"}, variable(t, "RACED")...)...)
	root := goList(t, "-f", "{{.ImportPath}}", "./...")
	starting := 0
	for _, f := range files(t) {
		name := module + "/" + f.folder
		if !slices.Contains(root, name) || !starts(f.syntax) {
			continue
		}
		starting++
		if !slices.Contains(raced, name) {
			t.Errorf("%s starts a goroutine, and RACED in the Makefile does not have its package", f.path)
		}
	}
	if starting < 20 {
		t.Errorf("only %d files start goroutines: they are not found any more", starting)
	}
}

// TestTargetsRunTests: a name after -run or -skip in the Makefile is the name of a test. go test passes
// if it finds none.
func TestTargetsRunTests(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	check.Must(t, err)
	var tests strings.Builder
	for _, f := range files(t) {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test() {
				fmt.Fprintln(&tests, fn.Name.Name)
			}
		}
	}
	patterns := regexp.MustCompile(`(?: -run ['"]?|UNRACED +:= )(\w[^ '"\n]+)`).FindAllStringSubmatch(string(makefile), -1)
	if len(patterns) < 20 {
		t.Errorf("only %d targets choose tests: they are not found any more", len(patterns))
	}
	for _, pattern := range patterns {
		for _, name := range regexp.MustCompile(`[|(]?(\w[^|()$]+)`).FindAllStringSubmatch(pattern[1], -1) {
			if !regexp.MustCompile(name[1]).MatchString(tests.String()) {
				t.Errorf("the Makefile names %s, which no test is called", name[1])
			}
		}
	}
}

// starts reports whether a file has a go statement, or calls a method Go.
func starts(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			found = found || ok && method.Sel.Name == "Go"
		}
		return !found
	})
	return found
}
