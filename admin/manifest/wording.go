package manifest

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// The parser names types of Go. What it says of a manifest is said here in words of manifests.
var (
	unknownKey = regexp.MustCompile(`(?s)^field (.*) not found in type (\S+)$`)
	wrongShape = regexp.MustCompile("(?s)^cannot construct !!(\\w+)(?: `(.*)`)? into (.+)$")
)

// worded returns an error of the parser with the line and the place of each mistake, and the values
// accepted there.
func worded(err error, at map[[2]int]string) error {
	all, ok := errors.AsType[*yaml.LoadErrors](err)
	if !ok {
		return err
	}
	types := map[string]reflect.Type{}
	shapes(types, reflect.TypeFor[document]())
	var lines []string
	for _, e := range all.Errors {
		place := at[[2]int{e.Mark.Line, e.Mark.Column}]
		if place != "" {
			place += ": "
		}
		lines = append(lines, fmt.Sprintf("line %d: %s%s", e.Mark.Line, place, wordedOne(types, e.Message)))
	}
	return errors.New(strings.Join(lines, "; "))
}

func wordedOne(types map[string]reflect.Type, text string) string {
	if m := unknownKey.FindStringSubmatch(text); m != nil && types[m[2]] != nil {
		return fmt.Sprintf("%q is not known here, accepted are %s", m[1], strings.Join(keys(types[m[2]]), ", "))
	}
	if m := wrongShape.FindStringSubmatch(text); m != nil && types[m[3]] != nil {
		found := map[string]string{"seq": "a list", "map": "a mapping", "null": "nothing"}[m[1]]
		if found == "" {
			found = fmt.Sprintf("%q", m[2])
		}
		return fmt.Sprintf("found %s, want %s", found, shape(types[m[3]]))
	}
	return text
}

// shapes adds the types within a type, by the names that the parser has for them.
func shapes(types map[string]reflect.Type, t reflect.Type) {
	if types[t.String()] != nil {
		return
	}
	types[t.String()] = t
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		shapes(types, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			shapes(types, t.Field(i).Type)
		}
	}
}

// shape says what a manifest has where the parser wants a type.
func shape(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "names, each with " + shape(t.Elem())
	case reflect.Struct:
		return "a mapping with any of " + strings.Join(keys(t), ", ")
	}
	return "a whole number"
}

func keys(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, inline, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if inline == "inline" {
			out = append(out, keys(f.Type)...)
			continue
		}
		out = append(out, name)
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}
