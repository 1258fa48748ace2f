package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// Decisions, invariants and weaknesses are cited by number, and each number is
// explained in one place. Whatever looks like such a number in a comment is one, but
// for the name of a service.
var (
	citation  = regexp.MustCompile(`\b[A-Z][1-9][0-9]?\b`)
	citedName = regexp.MustCompile(`^[DIW][1-9][0-9]? `)                            // of a subtest or a planted defect
	explained = regexp.MustCompile(`(?m)^(?:\*\*|\| )([DIW][1-9][0-9]?)(?: \||\s)`) // "**D1 Title." or "| I1 | text |"
)

// explanations returns where in docs/ each number is explained.
func explanations(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"design.md", "wire-format.md"} {
		text, err := os.ReadFile(filepath.Join(root(t), "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range explained.FindAllSubmatch(text, -1) {
			number := string(m[1])
			if other, ok := out[number]; ok {
				t.Errorf("%s is explained in %s and in %s", number, other, name)
			}
			out[number] = name
		}
	}
	return out
}

func TestNumbersInCommentsAreExplained(t *testing.T) {
	known := explanations(t)
	found := 0
	check := func(f file, pos token.Pos, text string) {
		for _, number := range citation.FindAllString(text, -1) {
			found++
			if known[number] == "" && number != "S3" {
				t.Errorf("%s cites %s, which docs/ does not explain", f.set.Position(pos), number)
			}
		}
	}
	for _, f := range files(t) {
		for _, group := range f.syntax.Comments {
			check(f, group.Pos(), group.Text())
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, _ := strconv.Unquote(lit.Value); citedName.MatchString(s) {
					check(f, lit.Pos(), citation.FindString(s))
				}
			}
			return true
		})
	}
	if found < 50 || len(known) < 40 {
		t.Errorf("%d citations of %d numbers found: the patterns do not match any more", found, len(known))
	}
}
