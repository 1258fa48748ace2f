package arch

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kindSeats are where it is known which kinds of limit there are, one seat for each thing that is
// to be said of a kind. A new kind touches a file of each seat, mostly one that is there or one
// of its own. All other files ask what a limit does: Refills, Renews and Returns of bucket.Limit.
var kindSeats = []struct {
	what  string
	files []string
}{
	{"which kind a limit is", []string{"internal/bucket/kind.go"}},
	{"its arithmetic", []string{"internal/bucket/quota.go", "internal/bucket/inflight.go"}},
	{"which form it is kept in", []string{"internal/table/form.go"}},
	{"what it has in items and configurations", []string{"internal/table/quota.go", "internal/table/quotawrite.go",
		"internal/table/inflight.go", "internal/config/kind.go"}},
	{"its stored and its public form", []string{"internal/validate/form.go"}},
	{"what marks it for users, and its text", []string{"limiter/limit.go"}},
	{"what is valid", []string{"internal/validate/limit.go"}},
	{"how people write it: in manifests, and for the tool", []string{"admin/manifest/kinds.go"}},
}

// maxKindSeats is how many there may be. Once a kind was asked for in some forty files, and to add
// one was to read all of them.
const maxKindSeats = 8

func TestKindsOfLimitAreKnownInFewPlaces(t *testing.T) {
	var known []string
	for _, s := range kindSeats {
		known = append(known, s.files...)
	}
	asks := map[string]bool{}
	for _, f := range files(t) {
		path := filepath.ToSlash(f.path)
		top, _, _ := strings.Cut(path, "/")
		if f.test() || slices.Contains(kit, f.folder) || top == "test" || top == "examples" {
			continue
		}
		for _, at := range kindAsked(f) {
			if asks[path] = true; !slices.Contains(known, path) {
				t.Errorf("%s: %s asks which kind a limit is; ask what it does (Refills, Renews and Returns of bucket.Limit, or "+
					"form of internal/table), so that a new kind need not be added here", path, at)
			}
		}
	}
	for _, path := range known {
		if !asks[path] {
			t.Errorf("%s does not ask for a kind any more: take it from the list", path)
		}
	}
	if len(kindSeats) > maxKindSeats {
		t.Errorf("a new kind of limit has %d seats, at most %d are few enough", len(kindSeats), maxKindSeats)
	}
}

// kindAsked returns the expressions of a file that name a kind of limit: what marks one in a limit,
// and the types that stand for kinds and forms. Values that begin with s are what callers are told.
func kindAsked(f file) (out []string) {
	types := []string{}
	switch f.folder {
	case "internal/bucket":
		types = []string{"rate", "quota", "slots"}
	case "internal/table":
		types = []string{"byLevel", "epochs"}
	}
	called := map[ast.Expr]bool{} // a timer has a Reset too
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called[n.Fun] = true
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			switch n.Sel.Name {
			case "Reset", "InFlight":
				if called[n] && n.Sel.Name == "Reset" || x != nil && x.Name == "s" {
					return true
				}
			case "IsQuota":
			default:
				return true
			}
			out = append(out, n.Sel.Name)
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "InFlight" && imports(f, "internal/bucket") {
				out = append(out, key.Name)
			}
		case *ast.CompositeLit:
			if id, ok := n.Type.(*ast.Ident); ok && slices.Contains(types, id.Name) {
				out = append(out, id.Name+"{}")
			}
		}
		return true
	})
	return out
}

// imports reports whether a file imports a package of the root module.
func imports(f file, folder string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(s *ast.ImportSpec) bool {
		return s.Path.Value == `"github.com/zeroae/zae-limiter-go/`+folder+`"`
	})
}
