package arch

import (
	"go/ast"
	"testing"
)

// wellKnown are methods whose name says what they do.
var wellKnown = []string{"Error", "Is", "String", "Unwrap"}

func TestEverythingExportedHasAComment(t *testing.T) {
	found := 0
	for _, f := range files(t) {
		if f.test() || f.syntax.Name.Name == "main" {
			continue
		}
		check := func(name *ast.Ident, comments ...*ast.CommentGroup) {
			if !name.IsExported() {
				return
			}
			found++
			for _, c := range comments {
				if c != nil {
					return
				}
			}
			t.Errorf("%s: %s has no comment", f.set.Position(name.Pos()), name.Name)
		}
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ast.IsExported(receiver(d)) && !contains(wellKnown, d.Name.Name) {
					check(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						check(s.Name, d.Doc, s.Doc)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							check(name, d.Doc, s.Doc, s.Comment)
						}
					}
				}
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d exported names found", found)
	}
}
