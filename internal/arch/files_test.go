package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
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

func TestEveryFolderHasOnePackageComment(t *testing.T) {
	comments := map[string][]string{}
	for _, f := range files(t) {
		if strings.HasSuffix(f.syntax.Name.Name, "_test") {
			continue
		}
		comments[f.folder] = append(comments[f.folder], nil...)
		if f.syntax.Doc != nil {
			comments[f.folder] = append(comments[f.folder], f.path)
		}
	}
	for folder, in := range comments {
		if len(in) != 1 {
			t.Errorf("%s has %d package comments, want one: %v", folder, len(in), in)
		}
	}
}

// Bounds within which code can be read at one sitting. Tests may have longer
// files and functions: tables are long and simple.
const (
	maxLines         = 300 // of a file
	maxFunctionLines = 60
	maxColumns       = 119 // of a line, a tab counting as one
)

func TestCodeCanBeReadAtOneSitting(t *testing.T) {
	for _, f := range files(t) {
		for i, line := range strings.Split(string(f.source), "\n") {
			// What stands between backquotes cannot be broken everywhere.
			if n := utf8.RuneCountInString(line); n > maxColumns && !strings.Contains(line, "`") {
				t.Errorf("%s:%d has %d characters, at most %d are readable", f.path, i+1, n, maxColumns)
			}
		}
		if f.test() {
			continue
		}
		if n := bytes.Count(f.source, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, at most %d are readable", f.path, n, maxLines)
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1; n > maxFunctionLines {
					t.Errorf("%s: %s has %d lines, at most %d are readable", f.path, fn.Name.Name, n, maxFunctionLines)
				}
			}
		}
	}
}

// pure are the packages that compute and do nothing else: no clock, no
// randomness, no environment, no files.
var pure = []string{"internal/bucket", "internal/item", "internal/table", "internal/usage", "internal/archive",
	"internal/bill", "internal/known", "internal/stream"}

// impure are the ways to get at what pure packages get as arguments.
var impure = map[string]*regexp.Regexp{
	"time":         regexp.MustCompile(`^(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTimer|NewTicker)$`),
	"os":           regexp.MustCompile(`.`),
	"net":          regexp.MustCompile(`.`),
	"net/http":     regexp.MustCompile(`.`),
	"math/rand":    regexp.MustCompile(`.`),
	"math/rand/v2": regexp.MustCompile(`.`),
	"crypto/rand":  regexp.MustCompile(`.`),
	"log":          regexp.MustCompile(`.`),
	"log/slog":     regexp.MustCompile(`.`),
}

func TestTheCoreIsPure(t *testing.T) {
	looked := map[string]bool{}
	for _, f := range files(t) {
		if f.test() || !contains(pure, f.folder) {
			continue
		}
		looked[f.folder] = true
		for _, imp := range f.syntax.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			forbidden := impure[path]
			if forbidden == nil {
				continue
			}
			name := path[strings.LastIndex(path, "/")+1:]
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == name && forbidden.MatchString(sel.Sel.Name) {
					t.Errorf("%s uses %s.%s: instants and identities are arguments here", f.set.Position(sel.Pos()), path,
						sel.Sel.Name)
				}
				return true
			})
		}
	}
	for _, folder := range pure {
		if !looked[folder] {
			t.Errorf("%s does not exist any more", folder)
		}
	}
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
// their settings and manifests with, but no behaviour.
func TestInfrastructureImportsNamesOnly(t *testing.T) {
	may := []string{"admin/manifest", "internal/archive", "internal/bill", "internal/function", "internal/item",
		"internal/namespace", "internal/release", "internal/table"} // release in a test
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
