package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// refused are keys that the manifests of Python, or other parts of ours, have, and why they are refused
// where they stand.
var refused = map[reflect.Type]map[string]string{
	reflect.TypeFor[system](): {
		config.AttrDisabled: "a whole namespace cannot be disabled; disable its resources",
		layout.AttrCascade:  "a whole namespace has no policy; its resources and entities have",
	},
	reflect.TypeFor[section](): {config.AttrOnUnavailable: "only system has it"},
}

// reader reads a manifest into the types that say what stands where. It collects mistakes, in words of
// manifests, and notes where limits stand.
type reader struct {
	wrong []string
	lines map[string]int // of limits, by their place
}

func (r *reader) refuse(n *yaml.Node, where []string, format string, args ...any) {
	place := strings.Join(append(slices.Clip(where), ""), ": ")
	r.wrong = append(r.wrong, fmt.Sprintf("line %d: %s", n.Line, place)+fmt.Sprintf(format, args...))
}

// read reads what a node says. Null says nothing.
func (r *reader) read(n *yaml.Node, to reflect.Value, where []string) {
	if n = resolved(n); n.ShortTag() == "!!null" {
		return
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	own, isOwn := to.Addr().Interface().(yaml.Unmarshaler)
	var err error
	switch kind := to.Kind(); {
	case isOwn:
		err = own.UnmarshalYAML(n)
	case kind == reflect.String && n.Kind == yaml.ScalarNode:
		to.SetString(n.Value)
	case kind == reflect.Slice && n.Kind == yaml.SequenceNode:
		to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
		for i, one := range n.Content {
			r.read(one, to.Index(i), where)
		}
	case kind == reflect.Interface && n.Kind == yaml.ScalarNode:
		err = n.Load(to.Addr().Interface())
	case kind == reflect.Interface: // metadata are whatever stands there
		of := map[yaml.Kind]reflect.Type{yaml.MappingNode: reflect.TypeFor[map[string]any](),
			yaml.SequenceNode: reflect.TypeFor[[]any]()}
		one := reflect.New(of[n.Kind]).Elem()
		r.read(n, one, where)
		to.Set(one)
	case kind == reflect.Map && n.Kind == yaml.MappingNode:
		to.Set(reflect.MakeMap(to.Type()))
		for _, p := range r.pairs(n, where) {
			one := reflect.New(to.Type().Elem()).Elem()
			r.read(p.value, one, append(slices.Clip(where), p.key.Value))
			to.SetMapIndex(reflect.ValueOf(p.key.Value), one)
		}
	case kind == reflect.Struct && n.Kind == yaml.MappingNode:
		if to.Type() == reflect.TypeFor[limit]() {
			r.lines[strings.Join(where, ": ")] = n.Line
		}
		for _, p := range r.pairs(n, where) {
			r.field(p, to, where)
		}
	default:
		err = fmt.Errorf("found %s, want %s", found(n), shape(to.Type()))
	}
	if err != nil {
		r.refuse(n, where, "%v", err)
	}
}

// field reads a key of a mapping and its value. Keys that begin with x- are passed over.
func (r *reader) field(p pair, of reflect.Value, where []string) {
	name := p.key.Value
	at := append(slices.Clip(where), name)
	switch f, reason := field(of, name), refused[of.Type()][name]; {
	case strings.HasPrefix(name, "x-"), reason != "" && empty(p.value):
	case reason != "":
		r.refuse(p.key, at, "%s", reason)
	case !f.IsValid():
		r.refuse(p.key, where, "%q is not known here, accepted are %s", name, strings.Join(keys(of.Type()), ", "))
	default:
		r.read(p.value, f, at)
	}
}

// pair is a key of a mapping with its value.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys of a mapping, its own before merged ones.
func (r *reader) pairs(n *yaml.Node, where []string) (out []pair) {
	var merged []*yaml.Node
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := *resolved(n.Content[i]), n.Content[i+1]
		key.Line = n.Content[i].Line
		line, twice := lines[key.Value]
		switch tag, value := key.ShortTag(), resolved(value); {
		case tag == "!!null":
			r.refuse(&key, where, "the key is null; in quotes it is a name: %q", key.Value)
		case tag == "!!merge" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		case tag == "!!merge":
			merged = append(merged, value)
		case twice:
			r.refuse(&key, where, "%q is there already, in line %d", key.Value, line)
		default:
			out, lines[key.Value] = append(out, pair{&key, value}), key.Line
		}
	}
	for _, m := range merged {
		for _, p := range r.pairs(resolved(m), where) {
			if lines[p.key.Value] == 0 {
				out, lines[p.key.Value] = append(out, p), p.key.Line
			}
		}
	}
	return out
}

// resolved returns what an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// field returns the field of a struct that a key is for, the zero Value if it is not known.
func field(of reflect.Value, name string) reflect.Value {
	for i := range of.NumField() {
		switch key, inline, _ := strings.Cut(of.Type().Field(i).Tag.Get("yaml"), ","); {
		case inline == "inline":
			if f := field(of.Field(i), name); f.IsValid() {
				return f
			}
		case key == name && name != "":
			return of.Field(i)
		}
	}
	return reflect.Value{}
}

// found says what stands there.
func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	}
	return fmt.Sprintf("%q", n.Value)
}

// shape says what a manifest has where a type is wanted.
func shape(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "names, each with " + shape(t.Elem())
	case reflect.Struct:
		return "a mapping with any of " + strings.Join(keys(t), ", ")
	case reflect.Interface:
		return "a value"
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

// empty reports whether a value says nothing: null, or a list of nothing.
func empty(n *yaml.Node) bool {
	n = resolved(n)
	return n.ShortTag() == "!!null" || n.Kind == yaml.SequenceNode && len(n.Content) == 0
}
