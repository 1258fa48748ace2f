package arch

import (
	"bytes"
	"flag"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var update = flag.Bool("update", false, "take the exported API over")

// public are the packages that others import. docs/upgrading.md says what a change
// of them means.
var public = []string{
	"admin", "admin/manifest", "cmd/zae-limiter/envoylimit", "grpclimit", "httplimit", "infra/cdk", "limiter",
	"limitertable", "limitertest", "otellimit", "streams", "streams/poll",
}

// TestExportedAPIDoesNotChangeUnnoticed compares what each public package exports
// with testdata/api. After an intended change: go test ./internal/arch -run API -update.
func TestExportedAPIDoesNotChangeUnnoticed(t *testing.T) {
	api := map[string][]string{}
	for _, f := range files(t) {
		folder := filepath.ToSlash(f.folder)
		if !f.test() && f.syntax.Name.Name != "main" && !strings.Contains("/"+folder+"/", "/internal/") &&
			published(folder) {
			api[folder] = append(api[folder], exported(f)...)
		}
	}
	for folder := range api {
		if !slices.Contains(public, folder) {
			t.Errorf("%s can be imported by others: name it here, or move it below internal", folder)
		}
	}
	for _, folder := range public {
		slices.Sort(api[folder])
		text := strings.Join(api[folder], "\n\n") + "\n"
		file := filepath.Join("testdata", "api", strings.ReplaceAll(folder, "/", "-")+".txt")
		if *update {
			check.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			check.Must(t, os.WriteFile(file, []byte(text), 0o644))
			continue
		}
		want, err := os.ReadFile(file)
		check.Must(t, err)
		if text != string(want) {
			t.Errorf("the API of %s has changed: %s\nSay so in CHANGELOG.md, see docs/upgrading.md, and take it over: "+
				"go test ./internal/arch -run API -update", folder, firstDifference(text, string(want)))
		}
	}
}

// published reports whether a folder is in a module that is released.
func published(folder string) bool {
	first, _, _ := strings.Cut(folder, "/")
	return !slices.Contains([]string{"events", "examples", "test"}, first)
}

// exported returns the exported declarations of a file, without comments and bodies.
func exported(f file) (out []string) {
	ast.FileExports(f.syntax)
	for _, d := range f.syntax.Decls {
		if general, ok := d.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && !ast.IsExported(receiver(fn)) {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				n.Doc, n.Body = nil, nil
			case *ast.GenDecl:
				n.Doc = nil
			case *ast.TypeSpec:
				n.Doc, n.Comment = nil, nil
			case *ast.ValueSpec:
				n.Doc, n.Comment = nil, nil
			case *ast.Field:
				n.Doc, n.Comment = nil, nil
			}
			return true
		})
		var b bytes.Buffer
		// A file set of its own: positions would keep the room that comments took.
		if err := printer.Fprint(&b, token.NewFileSet(), d); err != nil {
			panic("bug: " + err.Error())
		}
		out = append(out, b.String())
	}
	return out
}

// receiver returns the name of the type that a method is of.
func receiver(fn *ast.FuncDecl) string {
	name := ""
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

func firstDifference(is, was string) string {
	now, before := strings.Split(is, "\n"), strings.Split(was, "\n")
	for i, line := range now {
		if i >= len(before) || line != before[i] {
			return "now\n\t" + line + "\nbefore\n\t" + strings.Join(before[min(i, len(before)):min(i+1, len(before))], "")
		}
	}
	return "some of it is gone"
}
