package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// released is the template of the released app with its default options.
//
//go:embed template.golden.json
var released []byte

// shape is the properties of a table or a bucket that CloudFormation can change only by replacing
// it, or not at all.
type shape struct {
	kind                   string // table, bucket
	TableName, BucketName  any
	KeySchema              any
	AttributeDefinitions   []attributeType
	LocalSecondaryIndexes  any
	GlobalSecondaryIndexes []index
}

type attributeType struct{ AttributeName, AttributeType string }

type index struct {
	IndexName  string
	KeySchema  any
	Projection struct {
		ProjectionType   string
		NonKeyAttributes []string
	}
}

// checkLosses compares the tables and buckets of a template with the deployed ones. The error names
// every change that would replace or drop one, which leaves its data behind unused, and every
// change that CloudFormation refuses half-way through the update. It skips the logical ids in
// mayLose. Both templates are JSON.
func checkLosses(deployed, next []byte, mayLose ...string) error {
	return compare(deployed, next, true, mayLose)
}

// checkRelease compares the tables of a template with the released ones, except for properties set
// by an option: whether there is a table, its name, and the projection of GSI2.
func checkRelease(next []byte) error { return compare(released, next, false, nil) }

func compare(deployed, next []byte, options bool, mayLose []string) error {
	was, err := shapes(deployed)
	if err != nil {
		return fmt.Errorf("deployed template: %w", err)
	}
	will, err := shapes(next)
	if err != nil {
		return fmt.Errorf("new template: %w", err)
	}
	var problems []error
	for _, id := range slices.Sorted(maps.Keys(was)) {
		old := was[id]
		now, ok := will[id]
		switch {
		case slices.Contains(mayLose, id):
		case ok:
			for _, change := range old.changes(now, options) {
				problems = append(problems, fmt.Errorf("%s %s: %s", old.kind, id, change))
			}
		case options:
			problems = append(problems, fmt.Errorf("%s %s: it would leave the stack with its contents", old.kind, id))
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
		s := shape{kind: kinds[r.Type]}
		if s.kind == "" {
			continue
		}
		if r.Properties != nil {
			if err := json.Unmarshal(r.Properties, &s); err != nil {
				return nil, fmt.Errorf("%s %s: %w", s.kind, id, err)
			}
		}
		out[id] = s
	}
	return out, nil
}

// kinds are the types of resources that hold data, with their names for messages.
var kinds = map[string]string{"AWS::DynamoDB::Table": "table", "AWS::S3::Bucket": "bucket"}

// changes describes the forbidden changes.
func (s shape) changes(to shape, options bool) (out []string) {
	if options && !reflect.DeepEqual(s.BucketName, to.BucketName) {
		out = append(out, fmt.Sprintf("its name would change from %v to %v: CloudFormation would make a new, empty bucket",
			s.BucketName, to.BucketName))
	}
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
