package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// seams are functions that only tests call, because a test has no other way to replace what they replace.
var seams = []string{"SetRandom"}

// What no program uses is gone, or in a package for tests. Names are compared, not
// types, so one that has a namesake in use is not found.
func TestTheCoreHasNothingForTestsOnly(t *testing.T) {
	declared := map[string]string{} // path by name
	used := map[string]bool{}
	for _, f := range files(t) {
		if f.test() || slices.Contains(kit, f.folder) || strings.HasPrefix(f.folder, "test/") {
			continue
		}
		names := map[*ast.Ident]bool{}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.folder, "internal/") {
				names[fn.Name] = true
				declared[fn.Name.Name] = f.path
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !names[id] {
				used[id.Name] = true
			}
			return true
		})
	}
	for name, path := range declared {
		if !used[name] && name != "init" && !slices.Contains(seams, name) {
			t.Errorf("%s: nothing but tests calls %s", path, name)
		}
	}
}
