package table

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// unconditional lists the writes without conditions. They store a given value, or their key depends
// on their contents.
var unconditional = []string{"replace limits", "keep audit", "add resource", "remove resource", "count configs",
	"owed", "audit"}

// Every other write has conditions, which are in its golden. None is redundant: each is the only
// one to refuse some change of the planned item.
func TestEveryConditionCanRefuse(t *testing.T) {
	played := 0
	slots := slotsWrites(t, []bucket.Limit{slotsLimit("fly", 10), sampleLimits[0]})
	for _, c := range slices.Concat(allWrites(t, sampleLimits), quotaWrites(t), slots, otherWrites(t)) {
		for i, w := range c.writes {
			if _, ok, err := w.Apply(c.on[i]); err != nil || !ok {
				t.Errorf("%s: write %d: held %v, %v on the item for which it was planned", c.name, i, ok, err)
			}
			all := conditions(condition(w))
			check.Equal(t, slices.Contains(unconditional, c.name), (len(all) == 0),
				"%s: write %d has %d conditions, unconditional", c.name, i, len(all))
			for j, cond := range all {
				// Any other condition on the item's attributes implies existence.
				text := without(w, cond)
				if text != "attribute_exists(PK)" && !refusesAlone(w, c.on[i], all, j) {
					t.Errorf("%s: write %d: nothing is refused by %q alone", c.name, i, text)
				}
				played++
			}
		}
	}
	if t.Logf("%d conditions seen refusing", played); played < 950 {
		t.Error("too few conditions")
	}
}

// condition returns the condition of a write, nil for none.
func condition(w item.Write) item.Cond {
	switch w := w.(type) {
	case item.Update:
		return w.If
	case item.Put:
		return w.If
	case item.Delete:
		return w.If
	}
	return w.(item.Check).If
}

// conditions splits a conjunction.
func conditions(c item.Cond) (out []item.Cond) {
	v := reflect.ValueOf(c)
	if !v.IsValid() {
		return nil
	}
	if v.Type() != reflect.TypeOf(item.All()) {
		return []item.Cond{c}
	}
	for i := range v.Len() {
		out = append(out, conditions(v.Index(i).Interface().(item.Cond))...)
	}
	return out
}

var valueAlias = regexp.MustCompile(`(:[0-9]+ AND )?:[0-9]+`)

// without formats a condition without its values.
func without(w item.Write, c item.Cond) string {
	r := render(item.Check{Key: w.Target(), If: c})
	text := valueAlias.ReplaceAllString(r.cond, "")
	text = alias.ReplaceAllStringFunc(text, func(a string) string { return r.names[a] })
	return strings.TrimSpace(text)
}

// refusesAlone reports whether some change of the item is refused only by condition i: all other
// conditions hold.
func refusesAlone(w item.Write, on item.Item, all []item.Cond, i int) bool {
	r := render(item.Check{Key: w.Target(), If: all[i]})
	var changed []item.Item
	for _, attr := range r.names {
		if attr == item.AttrPK { // missing or present
			changed = append(changed, nil, w.Target().Item())
			continue
		}
		values := []item.Value{nil, on[attr], item.S("x")}
		for _, v := range r.values {
			values = append(values, v)
		}
		for _, v := range values[1:] {
			values = append(values, near(v)...)
		}
		for _, v := range values {
			it := maps.Clone(on)
			if it == nil {
				it = w.Target().Item()
			}
			if it[attr] = v; v == nil {
				delete(it, attr)
			}
			changed = append(changed, it)
		}
	}
	for _, it := range changed {
		others := true
		for j, c := range all {
			others = others && (j == i || c.Holds(it))
		}
		if _, ok, err := w.Apply(it); others && !ok && err == nil {
			return true
		}
	}
	return false
}

// near returns values close to a value.
func near(v item.Value) []item.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		n, _, _ := item.Int(item.Item{"": v}, "")
		return []item.Value{item.N(n - 1), item.N(n + 1)}
	case *types.AttributeValueMemberS:
		return []item.Value{item.S(v.Value + "x")}
	case *types.AttributeValueMemberB:
		return []item.Value{item.B(append(bytes.Clone(v.Value), 0)), item.B(v.Value[:len(v.Value)-1])}
	case nil:
		return []item.Value{item.N(0), item.S("x"), item.B([]byte{1})}
	}
	return nil
}

// allWrites and otherWrites contain every function of the package that returns a write.
func TestEveryWriteIsTested(t *testing.T) {
	files, _ := filepath.Glob("../*/*.go")
	files = slices.DeleteFunc(files, func(path string) bool {
		return !slices.Contains([]string{"table", "config", "ledger"}, filepath.Base(filepath.Dir(path)))
	})
	called, planned := map[string]bool{}, []string{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		check.Must(t, err)
		if slices.Contains([]string{"table_writes_test.go", "table_otherwrites_test.go", "inflight_test.go"},
			filepath.Base(path)) {
			callsIn(f, called)
		}
		if !strings.HasSuffix(path, "_test.go") {
			planned = append(planned, plannersIn(f)...)
		}
	}
	for _, name := range planned {
		if !called[name] {
			t.Errorf("%s plans a write, and is in neither allWrites nor otherWrites", name)
		}
	}
	if len(planned) < 40 {
		t.Errorf("only %d functions found that plan a write", len(planned))
	}
}

// callsIn records the names of the functions and methods that a file calls.
func callsIn(f *ast.File, called map[string]bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			switch f := c.Fun.(type) {
			case *ast.Ident:
				called[f.Name] = true
			case *ast.SelectorExpr:
				called[f.Sel.Name] = true
			}
		}
		return true
	})
}

// plannersIn returns the exported functions and methods of a file that return writes.
func plannersIn(f *ast.File) (out []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() || fn.Type.Results == nil {
			continue
		}
		for _, result := range fn.Type.Results.List {
			expr := result.Type
			if list, ok := expr.(*ast.ArrayType); ok {
				expr = list.Elt
			}
			sel, ok := expr.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Write", "Update", "Put", "Delete", "Check"}, sel.Sel.Name) {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out
}
