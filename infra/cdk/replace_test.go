package cdk

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpdatesThatLoseATableAreRefused(t *testing.T) {
	for _, c := range []struct {
		old, new string // replaced in the golden
		want     []string
	}{
		{`"TimeToLiveSpecification"`, `"TimeToLiveSpecification"`, nil},
		{`"BillingMode": "PAY_PER_REQUEST"`, `"BillingMode": "PROVISIONED"`, nil},
		{`"TableName": "zae-limiter"`, `"TableName": "other"`, []string{"its name would change from zae-limiter to other"}},
		{`"KeyType": "RANGE"`, `"KeyType": "HASH"`, []string{"its key would change", "the key of index GSI1 would change"}},
		{`"AttributeType": "S"`, `"AttributeType": "N"`, []string{"the type of PK would change"}},
		{`"ProjectionType": "KEYS_ONLY"`, `"ProjectionType": "ALL"`, []string{
			"the projection of index GSI2 would change from KEYS_ONLY to ALL", "the projection of index GSI3"}},
		{`"IndexName": "GSI4"`, `"IndexName": "GSI5"`, []string{"indexes GSI4, GSI5 would be made or dropped at once"}},
	} {
		next := bytes.ReplaceAll(Golden(), []byte(c.old), []byte(c.new))
		err := CheckUpdate(Golden(), next)
		if (err != nil) != (c.want != nil) {
			t.Errorf("%s -> %s: error %v", c.old, c.new, err)
		}
		for _, want := range c.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s -> %s: error %v, want it to say %q", c.old, c.new, err, want)
			}
		}
	}
}

// What our templates do not say, and those of others do, cannot be changed either.
func TestUpdatesOfOtherTemplatesAreRefused(t *testing.T) {
	holding := func(kind, property, value string) []byte {
		return fmt.Appendf(nil, `{"Resources":{"It":{"Type":%q,"Properties":{%q:%s}}}}`, kind, property, value)
	}
	const bucket, table = "AWS::S3::Bucket", "AWS::DynamoDB::Table"
	types := func(a, b string) string {
		return fmt.Sprintf(`[{"AttributeName":"a","AttributeType":%q},{"AttributeName":"b","AttributeType":%q}]`, a, b)
	}
	for _, c := range []struct{ kind, property, old, new, want string }{
		{bucket, "BucketName", `"a"`, `"b"`, "bucket It: its name would change from a to b"},
		{bucket, "BucketName", `"a"`, "null", "bucket It: its name would change from a to <nil>"},
		{table, "LocalSecondaryIndexes", `[{"IndexName":"L"}]`, "[]", "table It: its local indexes would change"},
		{table, "AttributeDefinitions", types("S", "N"), types("S", "B"), "table It: the type of b would change"},
		{table, "LocalSecondaryIndexes", "null", `[{"IndexName":"L"}]`, "table It: its local indexes would change"},
	} {
		old, next := holding(c.kind, c.property, c.old), holding(c.kind, c.property, c.new)
		if err := CheckUpdate(old, next); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s -> %s: error %v, want it to say %q", old, next, err, c.want)
		}
		if err := errors.Join(CheckUpdate(old, old), CheckUpdate(old, next, "It")); err != nil {
			t.Errorf("%s, unchanged or meant: %v", old, err)
		}
	}
}

func TestOptionsAreNoChangeOfTheRelease(t *testing.T) {
	chosen := bytes.Replace(Golden(), []byte(`"TableName": "zae-limiter"`), []byte(`"TableName": "other"`), 1)
	if err := CheckRelease(Golden(), chosen); err != nil {
		t.Error(err)
	}
	if err := CheckRelease(Golden(),
		bytes.ReplaceAll(chosen, []byte(`"AttributeType": "S"`), []byte(`"AttributeType": "N"`))); err == nil {
		t.Error("a changed key of the release is accepted")
	}
}

func TestTemplatesThatAreNone(t *testing.T) {
	if err := CheckUpdate([]byte("Resources:\n  Table:"), Golden()); err == nil {
		t.Error("YAML is accepted")
	}
	if err := CheckUpdate([]byte(`{}`), Golden()); err != nil {
		t.Error(err)
	}
}

func TestPropsWithoutAnythingAreValid(t *testing.T) {
	var none *Props
	if err := none.Validate(); err != nil {
		t.Error(err)
	}
	p := none.withDefaults()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if p.TableName != "zae-limiter" || p.MaxShards != 32 || len(p.SnapshotWindows) != 2 || p.Key != nil ||
		p.Namespaces[0] != "default" {
		t.Errorf("defaults %+v", p)
	}
	if none := (&Props{Namespaces: []string{}}).withDefaults(); len(none.Namespaces) != 0 {
		t.Error("no namespaces became the default")
	}
}

// Namespaces of manifests are registered with the others, each once, and the caller's list stays as it is.
func TestNamespacesOfManifestsAreRegistered(t *testing.T) {
	list := []string{"a", "b", "kept"}
	p := &Props{Namespaces: list[:2], Manifests: []string{"namespace: b", "namespace: c"}}
	if got := p.withDefaults().Namespaces; strings.Join(got, " ") != "a b c" {
		t.Errorf("registered %q", got)
	}
	if list[2] != "kept" || len(p.Namespaces) != 2 {
		t.Errorf("the list is %q", list)
	}
}

func TestAllPropsThatAreWrongAreNamed(t *testing.T) {
	err := (&Props{TableName: "a b", MaxShards: 3, Aggregator: AggregatorProps{BatchSize: 10001},
		LogLevel: "debug"}).Validate()
	for _, want := range []string{"TableName=a b: accepted: 3 to 255", "MaxShards=3", "BatchSize=10001",
		"LogLevel=debug"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}

func TestNamespaceIDs(t *testing.T) {
	for id, ok := range map[string]bool{"Xk3_-9aB0cD": true, "_k3_-9aB0cD": true, "_": false, "*": false, "a*": false,
		"a/b": false, "": false} {
		if namespaceID.MatchString(id) != ok {
			t.Errorf("id %q: accepted is %v", id, !ok)
		}
	}
}

// TestVersionsShareNoProgram: the source of each version has a folder of its own in the cache
// of modules, and so do its programs.
func TestVersionsShareNoProgram(t *testing.T) {
	seen := map[string]bool{}
	for _, source := range []string{"/mod/zae-limiter-go@v0.9.0", "/mod/zae-limiter-go@v0.10.0"} {
		for _, function := range []string{"aggregator", "archiver"} {
			folder := programFolder("/cache", source, function)
			if seen[folder] || folder != programFolder("/cache", source, function) {
				t.Errorf("%s of %s is built to %s", function, source, folder)
			}
			seen[folder] = true
		}
	}
}

// TestFunctionsAreBuiltFromTheSource: without programs of their own, properties
// mean those of the required version.
func TestFunctionsAreBuiltFromTheSource(t *testing.T) {
	compiled, err := goTool("", "env", "GOCACHE")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", compiled) // which would be in the next one, and empty
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := build("archiver")
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(filepath.Join(dir, "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if program.Machine != elf.EM_AARCH64 {
		t.Errorf("built for %v", program.Machine)
	}
	if _, err := build("none"); err == nil || !strings.Contains(err.Error(), "go build") {
		t.Errorf("error %v, want what the go tool said", err)
	}
}
