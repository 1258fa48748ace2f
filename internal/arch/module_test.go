package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Who imports the client gets the root module's requirements to see. What only
// tests need belongs into the modules test/localstack and bench.
func TestRootModuleRequiresOnlyWhatIsShipped(t *testing.T) {
	deps := goList(t, "-deps", "./limiter/...", "./admin/...", "./functions/...")
	mods := goList(t, "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	if len(mods) == 0 {
		t.Fatal("the root module requires nothing")
	}
	for _, mod := range mods {
		if !slices.ContainsFunc(deps, func(dep string) bool { return strings.HasPrefix(dep+"/", mod+"/") }) {
			t.Errorf("go.mod requires %s, which neither client nor administration nor functions import", mod)
		}
	}
}

// goList returns the lines that go list prints in the root of the module.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}
