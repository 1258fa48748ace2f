package release

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func synthesized(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "infra", "cdk", "app", "template.golden.json"))
	check.Must(t, err)
	return text
}

// The template of a release is the stack, with parameters, and refers to nothing that is not in it.
func TestTemplate(t *testing.T) {
	text, err := Template(synthesized(t), "v1.2.3")
	check.Must(t, err)
	var doc struct {
		Parameters, Conditions, Resources map[string]map[string]any
		Outputs                           map[string]any
	}
	check.Must(t, json.Unmarshal(text, &doc))
	var was struct{ Resources, Outputs map[string]any }
	check.Must(t, json.Unmarshal(synthesized(t), &was))
	if len(doc.Resources) != len(was.Resources) || len(doc.Outputs) != len(was.Outputs) {
		t.Errorf("%d resources and %d outputs, want %d and %d", len(doc.Resources), len(doc.Outputs), len(was.Resources),
			len(was.Outputs))
	}
	for _, of := range []string{"cdk", "Bootstrap", "masked", "asset", `"zae-limiter"],`} {
		if strings.Contains(string(text), of) {
			t.Errorf("it speaks of %q", of)
		}
	}
	used := map[string]int{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for key, e := range v {
				name, ok := e.(string)
				switch list, _ := e.([]any); {
				case key == "Ref" && ok && !strings.HasPrefix(name, "AWS::"):
					used[name]++
				case key == "Fn::GetAtt" && len(list) > 0:
					used[list[0].(string)]++
				case key == "Fn::If":
					used["condition "+list[0].(string)]++
				case key == "Fn::Sub" && ok:
					used[strings.TrimSuffix(strings.TrimPrefix(name[:strings.Index(name, "}")+1], "${"), "}")]++
				}
				walk(e)
			}
		}
	}
	var all any
	check.Must(t, json.Unmarshal(text, &all))
	walk(all)
	for name := range used {
		_, parameter := doc.Parameters[name]
		_, resource := doc.Resources[name]
		if !parameter && !resource && doc.Conditions[strings.TrimPrefix(name, "condition ")] == nil {
			t.Errorf("it refers to %q, which is not there", name)
		}
	}
	for name := range doc.Parameters {
		if used[name] == 0 || doc.Resources[name] != nil {
			t.Errorf("parameter %s is not used, or is the name of a resource too", name)
		}
	}
	for _, want := range []string{`"S3Key":{"Fn::Sub":"${CodePrefix}aggregator-v1.2.3-linux-arm64.zip"}`,
		`"S3Key":{"Fn::Sub":"${CodePrefix}setup-v1.2.3-linux-arm64.zip"}`, `"TableName":{"Ref":"TableName"}`,
		`"Namespaces":{"Ref":"NamespaceNames"}`, `"DeletionProtectionEnabled":{"Fn::If":["Protected",true,false]}`,
		`"UpdateReplacePolicy":"Retain"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it does not say %s", want)
		}
	}
}

// What is not the stack is refused.
func TestOtherTemplatesAreRefused(t *testing.T) {
	for _, text := range []string{"", "{", `{"Resources":{}}`,
		`{"Resources":{"Other":{"Type":"AWS::Lambda::Function","Properties":{}}}}`} {
		if got, err := Template([]byte(text), "v1.2.3"); err == nil {
			t.Errorf("%s is made %s", text, got)
		}
	}
}

// An archive has the program, which may be executed, and is the same every time.
func TestZip(t *testing.T) {
	one, err := Zip([]byte("program"))
	check.Must(t, err)
	other, err := Zip([]byte("program"))
	if err != nil || !bytes.Equal(one, other) {
		t.Errorf("two archives of one program differ: %v", err)
	}
	r, err := zip.NewReader(bytes.NewReader(one), int64(len(one)))
	if err != nil || len(r.File) != 1 || r.File[0].Name != "bootstrap" || r.File[0].Mode() != 0o755 {
		t.Fatalf("%v, %v", r, err)
	}
	f, err := r.File[0].Open()
	check.Must(t, err)
	if got, err := io.ReadAll(f); err != nil || string(got) != "program" {
		t.Errorf("%q, %v", got, err)
	}
}
