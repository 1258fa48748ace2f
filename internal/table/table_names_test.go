package table

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// attributeNames returns the string constants that name an attribute: value by constant.
func attributeNames(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(path string) bool {
		return !slices.Contains([]string{"item", "layout", "table", "config", "ledger"}, filepath.Base(filepath.Dir(path)))
	})
	out := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				addNames(out, spec)
			}
			return true
		})
	}
	return out
}

func addNames(out map[string]string, spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if !strings.HasPrefix(strings.ToLower(name.Name), "attr") || i >= len(spec.Values) {
			continue
		}
		if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			out[name.Name], _ = strconv.Unquote(lit.Value)
		}
	}
}

// Every attribute has one name, and one constant for it.
func TestAttributeNamesAreUnique(t *testing.T) {
	byName := map[string]string{}
	all := attributeNames(t)
	for _, c := range slices.Sorted(maps.Keys(all)) {
		if other, ok := byName[all[c]]; ok {
			t.Errorf("%s and %s are both %q", other, c, all[c])
		}
		byName[all[c]] = c
	}
	if len(all) < 40 {
		t.Errorf("only %d attribute names found: %v", len(all), all)
	}
	t.Logf("%d attribute names: %v", len(all), slices.Sorted(maps.Keys(byName)))
}
