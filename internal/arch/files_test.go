package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// file is a Go file of the repository.
type file struct {
	path   string // relative to the root
	folder string
	source []byte
	syntax *ast.File
	set    *token.FileSet
}

func (f file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// files returns the Go files of all modules.
func files(t *testing.T) []file {
	t.Helper()
	dir := root(t)
	var out []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case "node_modules", "testdata", "dist", "cdk.out", ".git", ".cache":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f := file{set: token.NewFileSet()}
		f.path, _ = filepath.Rel(dir, path)
		f.folder = filepath.Dir(f.path)
		if f.source, err = os.ReadFile(path); err != nil {
			return err
		}
		f.syntax, err = parser.ParseFile(f.set, path, f.source, parser.ParseComments)
		out = append(out, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d Go files found", len(out))
	}
	return out
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// The infrastructure takes names from this module, and what the functions check
// their settings, manifests and table with, but no behaviour.
func TestInfrastructureImportsNamesOnly(t *testing.T) {
	may := []string{"admin/manifest", "internal/archive", "internal/check", "internal/pricing", "internal/config",
		"internal/function", "internal/item", "internal/layout", "internal/ledger", "internal/namespace",
		"internal/release", "limitertable"} // release and check in tests
	found := false
	for _, f := range files(t) {
		if !strings.HasPrefix(f.folder, filepath.Join("infra", "cdk")) {
			continue
		}
		for _, imp := range f.syntax.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			own, ok := strings.CutPrefix(path, module+"/")
			if !ok || strings.HasPrefix(own, "infra/cdk") {
				continue
			}
			found = true
			if !contains(may, own) {
				t.Errorf("%s imports %s, want only %v", f.path, own, may)
			}
		}
	}
	if !found {
		t.Error("the infrastructure imports no names any more")
	}
}
