package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// everydayWords are attribute names that are too common as words to tell an
// attribute name from.
var everydayWords = []string{"name", "status", "action", "window", "resource", "resources", "details", "timestamp",
	"metadata", "principal", "ttl", "rr", "r", "limit", "percent", "spent", "quota"}

// rooms are the packages that know the names of the table.
var rooms = []string{"internal/item", "internal/layout", "internal/table", "internal/config", "internal/ledger"}

// keyParts are the beginnings of keys that only the rooms may spell out.
var keyParts = regexp.MustCompile(
	`(ENTITY|BUCKET|RESOURCE|SYSTEM|AUDIT|USAGE|QUOTA|NAMESPACE|NSID|CONFIG|STATE|META|VERSION)#` +
		`|#(STATE|META|CONFIG|USAGE|QUOTA|AUDIT|VERSION|NSID|NAMESPACE|RESOURCES|PROVISIONER)` +
		`|^(b|l)_|_(tk|cp|ra|rp|tc)$`)

// names returns the attribute names that the rooms declare.
func names(all []file) []string {
	var out []string
	for _, f := range all {
		if f.test() || !slices.Contains(rooms, f.folder) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, id := range spec.Names {
				if i >= len(spec.Values) || !strings.HasPrefix(strings.ToLower(id.Name), "attr") {
					continue
				}
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					name, _ := strconv.Unquote(lit.Value)
					out = append(out, name)
				}
			}
			return true
		})
	}
	return slices.DeleteFunc(out, func(s string) bool { return slices.Contains(everydayWords, s) })
}

// free are the folders where names may be spelled out: the rooms, and tests and what they are
// made of.
var free = append([]string{"internal/storetest", "test/"}, rooms...)

// Only the rooms know attribute names and keys. Tests may spell them out:
// a test that takes the name from the code proves nothing about it.
func TestAttributeNamesStayInTheTable(t *testing.T) {
	all := files(t)
	known := names(all)
	if len(known) < 30 {
		t.Fatalf("only %d attribute names found: %v", len(known), known)
	}
	for _, f := range all {
		if f.test() || slices.ContainsFunc(free, func(p string) bool { return strings.HasPrefix(f.folder, p) }) {
			continue
		}
		tags := map[ast.Node]bool{}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				tags[field.Tag] = true
			}
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || tags[lit] {
				return true
			}
			s, _ := strconv.Unquote(lit.Value)
			if slices.Contains(known, s) || keyParts.MatchString(s) {
				t.Errorf("%s spells out %q, which internal/layout or another room names", f.set.Position(lit.Pos()), s)
			}
			return true
		})
	}
}
