package cdk

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

//go:embed template.golden.json
var golden []byte

// Golden is the template of the app with its default options, as released.
func Golden() []byte { return slices.Clone(golden) }

// shape is what CloudFormation cannot change of a table without making another
// one, or not at all.
type shape struct {
	TableName              any
	KeySchema              any
	AttributeDefinitions   []attribute
	LocalSecondaryIndexes  any
	GlobalSecondaryIndexes []index
}

type attribute struct{ AttributeName, AttributeType string }

type index struct {
	IndexName  string
	KeySchema  any
	Projection struct {
		ProjectionType   string
		NonKeyAttributes []string
	}
}

// CheckUpdate compares the tables of a template with those of the template that
// is deployed. The error names every change that would replace a table, which
// leaves its data behind in a table that nobody uses, or that CloudFormation
// refuses half-way through the update. Both templates are JSON.
func CheckUpdate(deployed, next []byte) error { return compare(deployed, next, true) }

// CheckRelease compares the tables of a template with those of another one
// except for what an option decides: the name, and the projection of GSI2.
func CheckRelease(released, next []byte) error { return compare(released, next, false) }

func compare(deployed, next []byte, options bool) error {
	was, err := shapes(deployed)
	if err != nil {
		return fmt.Errorf("deployed template: %w", err)
	}
	will, err := shapes(next)
	if err != nil {
		return fmt.Errorf("new template: %w", err)
	}
	var problems []error
	for id, old := range was {
		if now, ok := will[id]; ok {
			for _, change := range old.changes(now, options) {
				problems = append(problems, fmt.Errorf("table %s: %s", id, change))
			}
		}
	}
	return errors.Join(problems...)
}

func shapes(template []byte) (map[string]shape, error) {
	var doc struct {
		Resources map[string]struct {
			Type       string
			Properties json.RawMessage
		}
	}
	if err := json.Unmarshal(template, &doc); err != nil {
		return nil, err
	}
	out := map[string]shape{}
	for id, r := range doc.Resources {
		if r.Type != "AWS::DynamoDB::Table" {
			continue
		}
		var s shape
		if err := json.Unmarshal(r.Properties, &s); err != nil {
			return nil, fmt.Errorf("table %s: %w", id, err)
		}
		out[id] = s
	}
	return out, nil
}

// changes says what may not be changed and would be.
func (s shape) changes(to shape, options bool) (out []string) {
	if options && !reflect.DeepEqual(s.TableName, to.TableName) {
		out = append(out, fmt.Sprintf("its name would change from %v to %v: CloudFormation would make a new, empty table; "+
			"keep the name, or deploy another stack", s.TableName, to.TableName))
	}
	if !reflect.DeepEqual(s.KeySchema, to.KeySchema) {
		out = append(out, "its key would change: CloudFormation would make a new, empty table")
	}
	if !reflect.DeepEqual(s.LocalSecondaryIndexes, to.LocalSecondaryIndexes) {
		out = append(out, "its local indexes would change: CloudFormation would make a new, empty table")
	}
	for _, a := range s.AttributeDefinitions {
		for _, b := range to.AttributeDefinitions {
			if a.AttributeName == b.AttributeName && a.AttributeType != b.AttributeType {
				out = append(out, "the type of "+a.AttributeName+" would change: CloudFormation would make a new, empty table")
			}
		}
	}
	return append(out, s.indexChanges(to, options)...)
}

func (s shape) indexChanges(to shape, options bool) (out []string) {
	var madeOrDropped []string
	for _, a := range s.GlobalSecondaryIndexes {
		b, ok := to.index(a.IndexName)
		if !ok {
			madeOrDropped = append(madeOrDropped, a.IndexName)
			continue
		}
		if !reflect.DeepEqual(a.KeySchema, b.KeySchema) {
			out = append(out, "the key of index "+a.IndexName+" would change, which DynamoDB does not do: "+
				"drop it in one deployment, make it in another")
		}
		if !reflect.DeepEqual(a.Projection, b.Projection) && (options || a.IndexName != "GSI2") {
			out = append(out, fmt.Sprintf("the projection of index %s would change from %s to %s, which DynamoDB does not do: "+
				"keep it (option gsi2Projection), or drop the index by hand first",
				a.IndexName, a.Projection.ProjectionType, b.Projection.ProjectionType))
		}
	}
	for _, b := range to.GlobalSecondaryIndexes {
		if _, ok := s.index(b.IndexName); !ok {
			madeOrDropped = append(madeOrDropped, b.IndexName)
		}
	}
	if len(madeOrDropped) > 1 {
		out = append(out, "indexes "+strings.Join(madeOrDropped, ", ")+" would be made or dropped at once; "+
			"CloudFormation does one in each update")
	}
	return out
}

func (s shape) index(name string) (index, bool) {
	i := slices.IndexFunc(s.GlobalSecondaryIndexes, func(i index) bool { return i.IndexName == name })
	if i < 0 {
		return index{}, false
	}
	return s.GlobalSecondaryIndexes[i], true
}
