package cdk

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Validate returns everything that is wrong with the properties, joined, each
// with the field, its value and what is accepted. Nil properties are right.
func (p *Props) Validate() error {
	if p == nil {
		return nil
	}
	problems := check(p)
	if p.Archiver.Off && (p.ArchiveTransitionDays > 0 || p.ArchiveExpiryDays > 0) {
		problems = append(problems, errors.New(
			"ArchiveTransitionDays, ArchiveExpiryDays: without an archiver there is no archive"))
	}
	if t, e := p.ArchiveTransitionDays, p.ArchiveExpiryDays; t > 0 && e > 0 && e <= t {
		problems = append(problems, fmt.Errorf("ArchiveExpiryDays=%d: want more than ArchiveTransitionDays=%d", e, t))
	}
	table := p.withDefaults().TableName
	for _, format := range []string{p.IAM.RoleNameFormat, p.IAM.PolicyNameFormat} {
		if name := strings.ReplaceAll(format, "{}", table+"-namespace-acquire"); len(name) > maxNameLength {
			problems = append(problems, fmt.Errorf("name format %q: %q has %d letters, IAM takes %d", format, name, len(name),
				maxNameLength))
		}
	}
	if t := p.Table; t.MaxWriteUnits > 0 && t.WarmWriteUnits > t.MaxWriteUnits || t.MaxReadUnits > 0 &&
		t.WarmReadUnits > t.MaxReadUnits {
		problems = append(problems, errors.New(
			"WarmReadUnits, WarmWriteUnits: want no more than MaxReadUnits, MaxWriteUnits"))
	}
	return errors.Join(problems...)
}

// maxNameLength is how long the name of a role may be.
const maxNameLength = 64

// withDefaults returns a copy in which every field that has a default value has
// it. Namespaces that are empty but not nil stay so: none are registered.
func (p *Props) withDefaults() *Props {
	var out Props
	if p != nil {
		out = *p
	}
	walk(&out, func(f reflect.StructField, is reflect.Value) {
		text, ok := f.Tag.Lookup("default")
		if !ok || !is.IsZero() {
			return
		}
		switch is.Kind() {
		case reflect.Int:
			if n, err := strconv.Atoi(text); err == nil {
				is.SetInt(int64(n))
			}
		case reflect.Slice:
			is.Set(reflect.ValueOf(strings.Split(text, ",")))
		case reflect.String:
			if f.Tag.Get("oneOf") != "" || f.Tag.Get("is") == "tableName" || f.Tag.Get("is") == "stackName" {
				is.SetString(text)
			}
		}
	})
	return &out
}
