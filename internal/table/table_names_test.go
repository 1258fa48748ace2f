package table

import (
	"github.com/zeroae/zae-limiter-go/internal/item"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
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

// reservedInUse are the reserved words of DynamoDB (developer guide, "Reserved
// words") that the wire format uses as attribute names.
var reservedInUse = []string{"action", "name", "resource", "status", "timestamp", "ttl", "window"}

// A reserved word does no harm where it stands, because no attribute name ever
// stands in an expression.
func TestNoAttributeNameReachesAnExpression(t *testing.T) {
	names := slices.Concat(slices.Collect(maps.Values(attributeNames(t))), reservedInUse,
		[]string{"SELECT", "a-b", "in.tok", "#a", ":b"})
	words := regexp.MustCompile(`[A-Za-z_.\-]+`)
	allowed := strings.Fields("SET ADD DELETE REMOVE AND OR BETWEEN if_not_exists attribute_exists attribute_not_exists")
	for _, name := range names {
		a := item.Attr{Name: name, Value: item.N(1)}
		cond := item.All(item.Exists(name), item.Absent(name),
			item.Any(item.Compare(name, item.Le, item.N(1)), item.Between(name, item.N(1), item.N(2))))
		for _, w := range []item.Write{
			item.Update{Set: []item.Attr{a}, If: cond}, item.Update{SetIfAbsent: []item.Attr{a}},
			item.Update{Add: []item.Attr{a}}, item.Update{Del: []item.Attr{a}},
			item.Update{Remove: []string{name}}, item.Put{Item: item.Item{name: item.N(1)}, If: cond}, item.Delete{If: cond},
			item.Check{If: cond},
		} {
			r := render(w)
			for _, word := range words.FindAllString(r.update+" "+r.cond, -1) {
				if !slices.Contains(allowed, word) {
					t.Errorf("%q stands in the expression %s %s", word, r.update, r.cond)
				}
			}
		}
	}
}
