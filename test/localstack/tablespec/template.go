// Package tablespec reads the functions of a synthesized CloudFormation template, with the settings
// of their event source mappings, so that tests run with the deployed configuration. The table is
// limitertable's.
//
// An unknown property of a mapping is an error, so no change of the template goes unnoticed.
package tablespec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
)

// Function is a function of the template, with its event source mapping.
type Function struct {
	TimeoutSeconds, MemoryMB int
	TableID                  string // logical id of the table whose stream it reads
	Settings                 eventsource.Settings
	environment              map[string]value
}

// GoldenPath returns the path of the committed template of the deployed stack.
func GoldenPath() string {
	return filepath.Join(engine.Root(), "..", "..", "infra", "cdk", "app", "template.golden.json")
}

// Deployed returns a function of the committed template, see [Parse].
func Deployed(name string) (Function, error) {
	text, err := os.ReadFile(GoldenPath())
	if err != nil {
		return Function{}, fmt.Errorf("template: %w (make golden writes it)", err)
	}
	return Parse(text, name)
}

// resources are the resources of a template by logical id.
type resources map[string]struct {
	Type       string
	Properties json.RawMessage
}

// Parse decodes a template in JSON and returns its only function whose logical id contains name,
// ignoring case. The function must have one event source mapping.
func Parse(template []byte, name string) (Function, error) {
	var doc struct{ Resources resources }
	if err := json.Unmarshal(template, &doc); err != nil {
		return Function{}, err
	}
	named := func(id string) bool {
		return doc.Resources[id].Type == "AWS::Lambda::Function" &&
			strings.Contains(strings.ToLower(id), strings.ToLower(name))
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(doc.Resources)), func(id string) bool { return !named(id) })
	if len(ids) != 1 {
		return Function{}, fmt.Errorf("functions %v match %q, expected one", ids, name)
	}
	var mappings []Function
	for id, r := range doc.Resources {
		if r.Type != "AWS::Lambda::EventSourceMapping" {
			continue
		}
		f, of, err := doc.Resources.mapping(r.Properties)
		if err != nil {
			return f, fmt.Errorf("resource %q: %w", id, err)
		}
		if of == ids[0] {
			mappings = append(mappings, f)
		}
	}
	if len(mappings) != 1 {
		return Function{}, fmt.Errorf("%d event source mappings of function %q, expected one", len(mappings), ids[0])
	}
	f := mappings[0]
	var p struct {
		Timeout, MemorySize int
		Environment         struct{ Variables map[string]value }
	}
	err := json.Unmarshal(doc.Resources[ids[0]].Properties, &p)
	f.TimeoutSeconds, f.MemoryMB, f.environment = p.Timeout, p.MemorySize, p.Environment.Variables
	return f, err
}

// Environment returns the function's environment. It replaces every reference by the result of
// resolve, which gets the logical id, and for Fn::GetAtt the attribute.
func (f Function) Environment(resolve func(id, attribute string) string) map[string]string {
	env := map[string]string{}
	for name, v := range f.environment {
		if env[name] = v.text; v.id != "" {
			env[name] = resolve(v.id, v.attribute)
		}
	}
	return env
}

// value is a text, or a reference: {"Ref": id} or {"Fn::GetAtt": [id, attribute]}.
type value struct{ text, id, attribute string }

func (v *value) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &v.text) == nil {
		return nil
	}
	var ref struct {
		Ref    string
		GetAtt []string `json:"Fn::GetAtt"`
	}
	switch err := strict(raw, &ref); {
	case err == nil && ref.Ref != "":
		v.id = ref.Ref
	case err == nil && len(ref.GetAtt) == 2:
		v.id, v.attribute = ref.GetAtt[0], ref.GetAtt[1]
	default:
		return fmt.Errorf("%s: accepted are texts, Ref and Fn::GetAtt", raw)
	}
	return nil
}

func strict(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
