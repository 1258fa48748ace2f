// Package arch holds no code: its tests keep the shape of the repository. They hold
// which package may import which, attribute names in one place, what public packages
// export, and that the numbers in comments are explained in docs. What linters can tell,
// `make lint` holds.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

const module = "github.com/zeroae/zae-limiter-go"

// mayImport lists, for every package of the module, the packages of the module
// that it imports itself. Arrows point downwards (docs/design.md): whoever
// adds one adds it here and says why in the commit. Modules of their own may import
// what they like.
var mayImport = map[string][]string{
	"limiter": {"internal/validate", "internal/bucket", "internal/calendar", "internal/decide", "internal/desk",
		"internal/inflight", "internal/inforce", "internal/layout", "internal/namespace", "internal/waitqueue",
		"internal/store", "internal/table"},
	"internal/inforce": { // knows the limits in force, by stored configuration that it caches
		"internal/bucket", "internal/config", "internal/decide", "internal/desk", "internal/item", "internal/layout",
		"internal/namespace", "internal/store", "internal/validate",
	},
	"internal/desk": { // carries out what internal/decide says: all calls, goroutines and timers of the client
		"internal/bucket", "internal/decide", "internal/item", "internal/layout", "internal/waitqueue", "internal/shard",
		"internal/inflight", "internal/store", "internal/table",
	},
	"admin": { // manages what limiter works with: its limits and errors, and the records behind both
		"internal/validate", "internal/bucket", "internal/config", "internal/item", "internal/layout", "internal/ledger",
		"internal/namespace", "internal/store", "internal/table", "limiter",
	},
	"admin/manifest": { // apart, for its YAML parser
		"admin", "internal/validate", "internal/calendar", "internal/config", "internal/layout", "internal/yamldoc",
		"limiter",
	},
	"limitertable":               {}, // apart: who takes tokens creates no tables
	"httplimit":                  {"internal/validate", "internal/nested", "limiter"},
	"internal/nested":            {},                                                           // for grpclimit too
	"limitertest":                {"admin", "internal/memdynamo", "internal/store", "limiter"}, // for tests of users
	"internal/bucket":            {"internal/calendar"},
	"internal/bucket/buckettest": {"internal/bucket", "internal/loadcheck"},
	"internal/calendar":          {},
	"internal/yamldoc":           {}, // for manifests and the rules of Envoy, apart for its parser
	"internal/check":             {}, // comparisons of tests
	"internal/item":              {},
	"internal/item/itemtest":     {"internal/item"},
	"internal/sequence":          {},
	"internal/layout":            {"internal/item"}, // what the next three share
	"internal/table":             {"internal/bucket", "internal/calendar", "internal/item", "internal/layout"},
	"internal/config":            {"internal/bucket", "internal/calendar", "internal/item", "internal/layout"},
	"internal/ledger":            {"internal/bucket", "internal/item", "internal/layout", "internal/sequence"},
	"internal/store":             {"internal/item"},
	"internal/prefetch":          {"internal/bucket", "internal/table"}, // pure, for internal/decide
	"internal/shard": {"internal/bucket", "internal/item", "internal/layout", "internal/store",
		"internal/table"},
	"internal/decide": { // what a process knows of a bucket, and decides
		"internal/prefetch", "internal/bucket", "internal/item", "internal/shard", "internal/table",
	},
	"internal/waitqueue": { // who waits in a process; makes no calls
		"internal/bucket", "internal/item", "internal/decide", "internal/table",
	},
	"internal/inflight": { // what leases hold of in-flight limits; makes no calls
		"internal/bucket", "internal/item", "internal/decide", "internal/table",
	},
	"internal/stream": {"internal/bucket", "internal/item", "internal/layout", "internal/sequence",
		"internal/table"},
	"internal/stream/streamtest": {"internal/item", "internal/item/itemtest"},
	"internal/usage": {"internal/bucket", "internal/config", "internal/item", "internal/layout", "internal/ledger",
		"internal/sequence", "internal/shard", "internal/stream", "internal/table"},
	"internal/archive": {"internal/item", "internal/layout", "internal/ledger"},
	"internal/validate": { // shared by limiter and admin
		"internal/bucket", "internal/calendar", "internal/config", "internal/layout",
	},
	"internal/namespace": { // shared by limiter and admin
		"internal/config", "internal/item", "internal/layout", "internal/store",
	},
	"internal/function":  {"internal/bucket", "internal/sequence"},
	"internal/memdynamo": {"internal/item", "internal/item/itemtest", "internal/layout", "internal/store"},
	"internal/storetest": {"internal/bucket", "internal/check", "internal/item", "internal/item/itemtest",
		"internal/layout", "internal/store", "internal/table"},
	"internal/arch":                    {},
	"internal/pricing":                 {},                                       // prices
	"internal/simulation":              {},                                       // tests only, of all together
	"internal/childproc":               {},                                       // child processes
	"internal/emulator":                {"internal/childproc", "internal/store"}, // used by the tool and the tests
	"internal/loadcheck":               {},                                       // for the tool, demo, tests
	"internal/loadcheck/loadchecktest": {"internal/check", "internal/item"},      // the driver of random worlds in tests
	"internal/replay":                  {"internal/archive", "internal/item", "internal/stream", "internal/usage"},
	"events/eventstest":                {},
	"streams": { // the aggregator, for the function and for those of others
		"internal/archive", "internal/function", "internal/item", "internal/ledger", "internal/sequence",
		"internal/shard", "internal/store", "internal/stream", "internal/table", "internal/usage",
	},
	"streams/poll":             {}, // brings batches of the stream to whoever takes them
	"functions/internal/start": {}, // before their first event; apart from internal/function for the Lambda library
	"functions/aggregator":     {"functions/internal/start", "internal/function", "streams"},
	"functions/archiver":       {"functions/internal/start", "internal/archive", "internal/function"},
	"functions/setup": {"admin", "admin/manifest", "functions/internal/start", "internal/config", "internal/function",
		"internal/namespace", "internal/store", "limitertable"},
	"infra/account":    {},
	"infra/release":    {"internal/release"},
	"internal/release": {}, // versions of the modules, for the command that tags and for tests
	"docs":             {}, // the code on the pages, in tests
}

// rule forbids packages to reach others, directly or through what they import.
type rule struct {
	who    string   // a package, or a folder ending in /
	not    []string // packages or folders
	except []string // of who
	reason string
}

const (
	lambdaLibrary = "github.com/aws/aws-lambda-go/"
	s3Client      = "github.com/aws/aws-sdk-go-v2/service/s3/"
	streamsClient = "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/"
	yamlParser    = "go.yaml.in/yaml/"
	sdkConfig     = "github.com/aws/aws-sdk-go-v2/config/"
)

// kit are the packages of the module that tests are made of, and no program. They stay
// here because they bring no module of their own; limitertest gives the twin to the
// tests of users, and wants a testing.TB.
var kit = []string{"internal/memdynamo", "internal/storetest", "internal/item/itemtest", "internal/stream/streamtest",
	"internal/bucket/buckettest", "internal/check", "internal/loadcheck/loadchecktest", "limitertest"}

// paths returns the import paths of folders.
func paths(folders []string) (out []string) {
	for _, f := range folders {
		out = append(out, module+"/"+f+"/")
	}
	return out
}

var rules = []rule{
	{who: "internal/bucket", not: []string{"."}, reason: "the arithmetic imports the standard library only, and the " +
		"calendar, which does so too, so that it can be read, tested and trusted by itself"},
	{who: "internal/calendar", not: []string{"."}, reason: "as internal/bucket, which is built on it"},
	{who: "limiter", not: []string{lambdaLibrary}, reason: "a client in any program must not pull in Lambda (D15)"},
	{who: "limiter", not: []string{s3Client}, reason: "a client in any program must not pull in S3 (D15)"},
	{who: "limiter", not: []string{streamsClient}, reason: "a client that takes tokens reads no stream (D15)"},
	{who: "limiter", not: []string{yamlParser}, reason: "a client that takes tokens reads no manifests"},
	{who: "admin", not: []string{yamlParser}, reason: "only who reads manifests needs their parser: admin/manifest"},
	{who: "limiter", not: []string{sdkConfig},
		reason: "the caller brings the DynamoDB client, with its own configuration"},
	{who: "limiter", not: []string{module + "/internal/ledger/", module + "/internal/usage/",
		module + "/internal/stream/",
		module + "/internal/archive/", module + "/internal/function/"}, reason: "the slow work belongs to the functions"},
	{who: "streams", not: []string{lambdaLibrary, s3Client, streamsClient, sdkConfig},
		reason: "the aggregator runs anywhere; functions/aggregator wires it up"},
	{who: "streams", not: []string{module + "/limiter/"},
		reason: "the aggregator acts on what is stored; the client's caches and policies are not its own"},
	{who: "functions/", not: []string{module + "/limiter/"},
		except: []string{"functions/setup"}, // which applies manifests as the administration does
		reason: "the functions act on what is stored; the client's caches and policies are not theirs"},
	{who: "functions/archiver", not: []string{module + "/internal/store/"}, reason: "the archiver writes to S3 only"},
	{who: "internal/", not: []string{lambdaLibrary, s3Client, sdkConfig},
		reason: "the core runs anywhere; AWS is wired up in functions/*"},
	{who: "internal/", not: []string{module + "/limiter/"}, reason: "arrows point downwards"},
	{
		who: "", not: []string{module + "/test/"},
		reason: "emulators are for tests; arrows from the product to them would ship them",
	},
	{who: "", not: []string{module + "/functions/"}, except: []string{"functions/"},
		reason: "functions are programs; nothing imports them"},
	{who: "", not: []string{module + "/infra/", "github.com/aws/aws-cdk-go/", "github.com/aws/jsii-runtime-go/"},
		reason: "infrastructure is a module of its own, with Node and 500 MB of CDK (D15)"},
	{who: "", not: paths(kit), except: kit,
		reason: "the twin and what tests are made of must not end up in a program"},
}

type pkg struct {
	ImportPath    string
	Imports, Deps []string
	TestImports   []string
	XTestImports  []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// list returns the packages of the module with everything they reach.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	check.Must(t, err, "go list")
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// root is the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	check.Must(t, err)
	check.Must(t, check.Err(os.Stat(filepath.Join(dir, "go.mod"))))
	return dir
}

// within reports whether an import path is one of the packages or in one of the
// folders. "." stands for everything outside the standard library.
func within(path string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		if p == "." {
			first, _, _ := strings.Cut(path, "/")
			return strings.Contains(first, ".") && path != module+"/internal/bucket" &&
				path != module+"/internal/calendar"
		}
		return path == p || strings.HasPrefix(path+"/", p) && strings.HasSuffix(p, "/")
	})
}

func TestPackagesImportWhatTheyMay(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		name := p.name()
		seen[name] = true
		may, ok := mayImport[name]
		if !ok {
			t.Errorf("package %s is not in the import table: say what it may import", name)
		}
		for _, path := range p.Imports {
			own, ok := strings.CutPrefix(path, module+"/")
			if ok && !slices.Contains(may, own) {
				t.Errorf("%s imports %s, which the import table does not allow", name, own)
			}
		}
	}
	for name, may := range mayImport {
		for _, n := range append([]string{name}, may...) {
			if !seen[n] {
				t.Errorf("package %s of the import table does not exist any more", n)
			}
		}
	}
}

func TestPackagesDoNotReachWhatIsForbidden(t *testing.T) {
	all := list(t)
	reached := map[string]bool{}
	for _, p := range all {
		reached[p.ImportPath] = true
		for _, list := range [][]string{p.Deps, p.TestImports, p.XTestImports} {
			for _, path := range list {
				reached[path] = true
			}
		}
	}
	for _, r := range rules {
		who := 0
		for _, p := range all {
			name := p.name()
			if !within(name, []string{r.who}) && r.who != "" || within(name, r.except) {
				continue
			}
			who++
			for _, path := range p.Deps {
				if within(path, r.not) && path != p.ImportPath {
					t.Errorf("%s reaches %s: %s", name, path, r.reason)
				}
			}
		}
		if who == 0 {
			t.Errorf("no package is %q any more, the rule guards nothing: %s", r.who, r.reason)
		}
		for _, not := range r.not {
			if !exists(t, not, reached) {
				t.Errorf("nothing is %q any more, the rule guards nothing: %s", not, r.reason)
			}
		}
	}
}

// exists reports whether a forbidden package is still there under its name: used
// somewhere in this module, or required by the module of the infrastructure.
func exists(t *testing.T, path string, reached map[string]bool) bool {
	t.Helper()
	if path == "." {
		return true
	}
	for p := range reached {
		if within(p, []string{path}) {
			return true
		}
	}
	dir := root(t)
	if own, ok := strings.CutPrefix(path, module); ok {
		_, err := os.Stat(filepath.Join(dir, own))
		return err == nil
	}
	mod, err := os.ReadFile(filepath.Join(dir, "infra", "cdk", "go.mod"))
	return err == nil && strings.Contains(string(mod), strings.TrimSuffix(path, "/"))
}
