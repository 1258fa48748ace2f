package arch

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Who imports the client gets the root module's requirements to see. What only
// tests need belongs into the module test.
func TestRootModuleRequiresOnlyWhatIsShipped(t *testing.T) {
	deps := goList(t, "-deps", "./limiter/...", "./admin/...", "./streams/...", "./functions/...")
	mods := goList(t, "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	if len(mods) == 0 {
		t.Fatal("the root module requires nothing")
	}
	for _, mod := range mods {
		if !slices.ContainsFunc(deps, func(dep string) bool { return strings.HasPrefix(dep+"/", mod+"/") }) {
			t.Errorf("go.mod requires %s, which neither client nor administration, aggregator nor functions import", mod)
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

// TestEveryModuleIsChecked holds `make lint` and `make vuln` to all modules of the
// repository, and `make test` to all that have tests outside of infra/cdk, which has
// a target of its own.
func TestEveryModuleIsChecked(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name string) []string {
		found := regexp.MustCompile(`(?m)^` + name + ` *:= (.*)$`).FindSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.Fields(string(found[1]))
	}
	checked := slices.Concat(variable("MODULES"), variable("TESTED"), []string{"tools"}) // which has no code
	modules := 0
	err = filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", "dist", "cdk.out", ".git", ".cache"}, d.Name()):
			return filepath.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		modules++
		folder, err := filepath.Rel(root(t), filepath.Dir(path))
		if !slices.Contains(checked, filepath.ToSlash(folder)) {
			t.Errorf("module %s is in neither TESTED nor MODULES of the Makefile", folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if modules < 8 {
		t.Errorf("only %d modules found", modules)
	}
	if !slices.Contains(variable("MODULES"), "$(TESTED)") {
		t.Error("MODULES does not begin with all that is tested")
	}
}
