package table

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

func TestRecordsNeedAKeyOfTheirKind(t *testing.T) {
	kind := func(name string) string {
		all, _, _ := strings.Cut(name, "_")
		if all == "registry" && !strings.HasPrefix(name, "registry_provisioner") {
			return name
		}
		return all
	}
	all := samples()
	for name, it := range all {
		for other, there := range all {
			moved, k := maps.Clone(it), item.KeyOf(there)
			moved[item.AttrPK], moved[item.AttrSK] = item.S(k.PK), item.S(k.SK)
			_, err := decodedAs(item.KeyOf(it), moved)
			if kind(name) != kind(other) && err == nil {
				t.Errorf("%s is read under the key of %s", name, other)
			}
		}
	}
}

// A golden lists which attributes of each kind of record are required, and which must have their
// type if present. The error names the attribute, or the key of the record.
func TestRecordsNeedTheirAttributes(t *testing.T) {
	var out strings.Builder
	all := samples()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "%s\n", name)
		for _, c := range []struct {
			what string
			v    item.Value
		}{{"absent", nil}, {"a map of numbers", item.Map(item.Item{"x": item.N(5)})}, {"a text", item.S("x y")},
			{"a negative number", item.N(-7)}} {
			fmt.Fprintf(&out, "  refused as %s:", c.what)
			for _, attr := range slices.Sorted(maps.Keys(all[name])) {
				it := maps.Clone(all[name])
				if it[attr] = c.v; c.v == nil {
					delete(it, attr)
				}
				_, err := decodedAs(item.KeyOf(all[name]), it)
				if err == nil {
					continue
				}
				fmt.Fprintf(&out, " %s", attr)
				if !strings.Contains(err.Error(), attr) && !errors.Is(err, item.ErrKey) && c.v != nil ||
					strings.Contains(err.Error(), "%!") {
					t.Errorf("%s: %s as %s: %v", name, attr, c.what, err)
				}
			}
			out.WriteByte('\n')
		}
	}
	golden(t, "refused.txt", []byte(out.String()))
}

// attributeNames returns the string constants that name attributes: values by constant.
func attributeNames(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../*/*.go")
	check.Must(t, err)
	files = slices.DeleteFunc(files, func(path string) bool {
		return !slices.Contains([]string{"item", "layout", "table", "config", "ledger"}, filepath.Base(filepath.Dir(path)))
	})
	out := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		check.Must(t, err)
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
