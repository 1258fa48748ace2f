package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

// template is a synthesized template, decoded and as stable text.
type template struct {
	Resources map[string]resource
	Outputs   map[string]any
	text      []byte // indented, keys in order, asset hashes masked
}

type resource struct {
	Type                string
	Properties          map[string]any
	DeletionPolicy      string
	UpdateReplacePolicy string
}

// decodeTemplate masks the storage keys of the functions' code: they are
// hashes over the built programs and say nothing about the infrastructure.
func decodeTemplate(raw *map[string]any) (template, error) {
	b, err := json.Marshal(raw)
	if err != nil {
		return template{}, err
	}
	var t template
	if err := json.Unmarshal(b, &t); err != nil {
		return template{}, err
	}
	for id, r := range t.Resources {
		if r.Type == "AWS::Lambda::Function" {
			fn := (*raw)["Resources"].(map[string]any)[id].(map[string]any)
			fn["Properties"].(map[string]any)["Code"].(map[string]any)["S3Key"] = "masked.zip"
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(raw)
	t.text = buf.Bytes()
	return t, err
}

// ofType returns all resources of a type by logical id.
func (t template) ofType(name string) map[string]resource {
	found := map[string]resource{}
	for id, r := range t.Resources {
		if r.Type == name {
			found[id] = r
		}
	}
	return found
}

// one returns the resource of a type whose logical id starts with prefix. It
// fails the test if there is not exactly one.
func (t template) one(tb testing.TB, typeName, prefix string) resource {
	tb.Helper()
	var found []resource
	for id, r := range t.ofType(typeName) {
		if len(id) >= len(prefix) && id[:len(prefix)] == prefix {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		tb.Fatalf("%d resources of type %s with prefix %q, want 1", len(found), typeName, prefix)
	}
	return found[0]
}

// dig follows keys and returns nil where there is nothing.
func dig(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}
