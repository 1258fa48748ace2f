// Package tablespec turns a synthesized CloudFormation template into a local table and into the
// settings of its event source mappings, so that tests run on the deployed configuration.
//
// A property that the translation does not know is an error, so a change of the template cannot
// pass unnoticed.
package tablespec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Template is the part of a CloudFormation template that the kit needs. Lists are sorted by logical
// id.
type Template struct {
	Tables    []Table
	Functions []Function
	Mappings  []Mapping
	resources map[string]resource
}

type resource struct {
	Type       string
	Properties json.RawMessage
	Metadata   map[string]any
}

// GoldenPath is the committed template of the deployed stack.
func GoldenPath() string {
	return filepath.Join(engine.Root(), "..", "..", "infra", "cdk", "app", "template.golden.json")
}

// Load reads the template file at path.
func Load(path string) (*Template, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("template: %w (make golden writes it)", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("template %q: %w", path, err)
	}
	return t, nil
}

// Parse reads a template in JSON. It returns an error, naming the resource,
// for an unknown property of a table or of an event source mapping.
func Parse(data []byte) (*Template, error) {
	var doc struct{ Resources map[string]resource }
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	t := &Template{resources: doc.Resources}
	var ids []string
	for id := range doc.Resources {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := t.add(id, doc.Resources[id]); err != nil {
			return nil, fmt.Errorf("resource %q: %w", id, err)
		}
	}
	return t, nil
}

func (t *Template) add(id string, r resource) error {
	switch r.Type {
	case "AWS::DynamoDB::Table":
		table, err := parseTable(id, r.Properties)
		if err != nil {
			return err
		}
		t.Tables = append(t.Tables, table)
	case "AWS::DynamoDB::GlobalTable":
		return fmt.Errorf("type %s is not supported, accepted is AWS::DynamoDB::Table", r.Type)
	case "AWS::Lambda::Function":
		f, err := parseFunction(id, r)
		if err != nil {
			return err
		}
		t.Functions = append(t.Functions, f)
	case "AWS::Lambda::EventSourceMapping":
		m, err := t.parseMapping(id, r.Properties)
		if err != nil {
			return err
		}
		t.Mappings = append(t.Mappings, m)
	}
	return nil
}

// Table returns the template's only table, or an error.
func (t *Template) Table() (Table, error) {
	if len(t.Tables) != 1 {
		return Table{}, fmt.Errorf("%d tables, expected one", len(t.Tables))
	}
	return t.Tables[0], nil
}

// Function returns the only function whose logical id or construct path
// contains name, without regard to case.
func (t *Template) Function(name string) (Function, error) {
	var found []Function
	for _, f := range t.Functions {
		if f.is(name) {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		return Function{}, fmt.Errorf("%d functions match %q, expected one", len(found), name)
	}
	return found[0], nil
}

// Mapping returns the only event source mapping that targets Function(name).
func (t *Template) Mapping(name string) (Mapping, error) {
	f, err := t.Function(name)
	if err != nil {
		return Mapping{}, err
	}
	var found []Mapping
	for _, m := range t.Mappings {
		if m.FunctionID == f.LogicalID {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return Mapping{}, fmt.Errorf("%d event source mappings target function %q, expected one", len(found), f.LogicalID)
	}
	return found[0], nil
}

// Function is a function of the template.
type Function struct {
	LogicalID      string
	Path           string // construct path, empty when the template has none
	TimeoutSeconds int
	MemoryMB       int
	Runtime        string
	Architectures  []string
	environment    map[string]json.RawMessage
}

func (f Function) is(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(strings.ToLower(f.LogicalID), name) || strings.Contains(strings.ToLower(f.Path), name)
}

func parseFunction(id string, r resource) (Function, error) {
	var p struct {
		Timeout, MemorySize int
		Runtime             string
		Architectures       []string
		Environment         struct{ Variables map[string]json.RawMessage }
	}
	if err := json.Unmarshal(r.Properties, &p); err != nil {
		return Function{}, err
	}
	path, _ := r.Metadata["aws:cdk:path"].(string)
	return Function{
		LogicalID: id, Path: path, TimeoutSeconds: p.Timeout, MemoryMB: p.MemorySize,
		Runtime: p.Runtime, Architectures: p.Architectures, environment: p.Environment.Variables,
	}, nil
}

// Environment is the function's environment with every reference replaced by
// resolve, which gets the logical id and, for Fn::GetAtt, the attribute.
func (f Function) Environment(resolve func(id, attribute string) string) (map[string]string, error) {
	env := map[string]string{}
	for name, raw := range f.environment {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			env[name] = text
			continue
		}
		id, attribute, err := reference(raw)
		if err != nil {
			return nil, fmt.Errorf("function %q: environment %s: %w", f.LogicalID, name, err)
		}
		env[name] = resolve(id, attribute)
	}
	return env, nil
}

// reference reads {"Ref": id} and {"Fn::GetAtt": [id, attribute]}.
func reference(raw json.RawMessage) (id, attribute string, err error) {
	var ref struct {
		Ref    string
		GetAtt []string `json:"Fn::GetAtt"`
	}
	if err := strict(raw, &ref); err != nil {
		return "", "", fmt.Errorf("%s: accepted are Ref and Fn::GetAtt: %w", raw, err)
	}
	switch {
	case ref.Ref != "":
		return ref.Ref, "", nil
	case len(ref.GetAtt) == 2:
		return ref.GetAtt[0], ref.GetAtt[1], nil
	}
	return "", "", fmt.Errorf("%s: accepted are Ref and Fn::GetAtt", raw)
}

func strict(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
