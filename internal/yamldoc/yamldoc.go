// Package yamldoc decodes a YAML or JSON document into types that describe it. It reports every
// mistake with its line, in the words of the document:
//
//	line 4: resources: gpt-4: "limts" is not known here, accepted are disabled, cascade, limits
//
// A struct is a mapping whose keys are the yaml tags of its fields. A struct tagged inline has its
// keys in the outer mapping, and a field Lines receives the lines of the keys. A map is a mapping
// of names, a slice a list. A string is any scalar, a bool has the words of YAML 1.1 (including yes
// and off), numbers are decimal digits, and other types have UnmarshalYAML. Null leaves a value
// unchanged, like a missing key; a pointer shows the difference. Aliases and merged keys are
// followed.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Options are the peculiarities of a kind of document.
type Options struct {
	// PassOver is the prefix of keys to ignore in a struct, such as x-. Empty: none.
	PassOver string
	// Refused holds, by struct, keys that are refused, with the reason.
	Refused map[reflect.Type]map[string]string
}

// Lines holds the lines of the keys of a mapping that have a value. Under "" is the mapping's own
// line; nil: there is no mapping.
type Lines map[string]int

// Mistake is an error in the document.
type Mistake struct {
	Line int // 0: not known
	Text string
}

// String returns the mistake with its line.
func (m Mistake) String() string {
	if m.Line == 0 {
		return m.Text
	}
	return fmt.Sprintf("line %d: %s", m.Line, m.Text)
}

// Read decodes the only document of a text into a pointer, and returns its mistakes in order. A
// text without a document has none, and changes nothing.
func Read(text []byte, into any, o Options) []Mistake {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var node, more yaml.Node
	err := d.Decode(&node)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil { // finds endless aliases; duplicate keys are found below
		err = node.Load(new(any), yaml.WithUniqueKeys(false))
	}
	if err != nil {
		return []Mistake{worded(err)}
	}
	r := reader{options: o}
	r.read(node.Content[0], reflect.ValueOf(into).Elem(), nil)
	if err := d.Decode(&more); err == nil {
		r.refuse(&more, nil, "more than one document")
	} else if !errors.Is(err, io.EOF) {
		r.mistakes = append(r.mistakes, worded(err))
	}
	return r.mistakes
}

// reader collects mistakes.
type reader struct {
	options  Options
	mistakes []Mistake
}

// deepest is how many names of its place a mistake shows: the last ones. With all of them, a deeply
// nested document would take hundreds of megabytes.
const deepest = 12

// below returns the place of a name within another place, at most one more than is shown.
func below(where []string, name string) []string {
	return append(slices.Clip(where[max(0, len(where)-deepest):]), name)
}

func (r *reader) refuse(n *yaml.Node, where []string, format string, args ...any) {
	if above := len(where) - deepest; above > 0 {
		where = append([]string{"…"}, where[above:]...)
	}
	place := strings.Join(append(slices.Clip(where), ""), ": ")
	r.mistakes = append(r.mistakes, Mistake{n.Line, place + fmt.Sprintf(format, args...)})
}

// read decodes a node. Null changes nothing.
func (r *reader) read(n *yaml.Node, to reflect.Value, where []string) {
	n = resolved(n)
	if isNull(n) {
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
	case n.Kind == yaml.ScalarNode && scalar(n, to):
	case kind == reflect.Slice && n.Kind == yaml.SequenceNode:
		to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
		for i, one := range n.Content {
			if isNull(resolved(one)) && to.Type().Elem().Kind() != reflect.Interface {
				r.refuse(one, where, "found nothing in an item, want %s", shape(to.Type().Elem()))
			}
			r.read(one, to.Index(i), where)
		}
	case kind == reflect.Interface && n.Kind == yaml.ScalarNode:
		err = n.Load(to.Addr().Interface())
	case kind == reflect.Interface: // whatever the content
		of := map[yaml.Kind]reflect.Type{yaml.MappingNode: reflect.TypeFor[map[string]any](),
			yaml.SequenceNode: reflect.TypeFor[[]any]()}
		one := reflect.New(of[n.Kind]).Elem()
		r.read(n, one, where)
		to.Set(one)
	case kind == reflect.Map && n.Kind == yaml.MappingNode:
		to.Set(reflect.MakeMap(to.Type()))
		for _, p := range r.pairs(n, where) {
			one := reflect.New(to.Type().Elem()).Elem()
			r.read(p.value, one, below(where, p.key.Value))
			to.SetMapIndex(reflect.ValueOf(p.key.Value), one)
		}
	case kind == reflect.Struct && n.Kind == yaml.MappingNode:
		lines := Lines{"": n.Line}
		if f := to.FieldByName("Lines"); f.IsValid() {
			f.Set(reflect.ValueOf(lines))
		}
		for _, p := range r.pairs(n, where) {
			r.field(p, to, where)
			if !isNull(resolved(p.value)) {
				lines[p.key.Value] = p.key.Line
			}
		}
	default:
		err = fmt.Errorf("found %s, want %s", Found(n), shape(to.Type()))
	}
	if err != nil {
		r.refuse(n, where, "%v", err)
	}
}

// field decodes a key of a mapping and its value.
func (r *reader) field(p pair, of reflect.Value, where []string) {
	name, pass := p.key.Value, r.options.PassOver
	at := below(where, name)
	switch f, reason := field(of, name), r.options.Refused[of.Type()][name]; {
	case pass != "" && strings.HasPrefix(name, pass), reason != "" && isEmpty(p.value):
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

// resolved returns the target of an alias.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// field returns the field of a struct for a key, or the zero Value if there is none.
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

// isEmpty reports whether a node is null or an empty list.
func isEmpty(n *yaml.Node) bool {
	n = resolved(n)
	return isNull(n) || n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

func isNull(n *yaml.Node) bool { return n.ShortTag() == "!!null" }

// scalar sets a value of a basic type from a scalar, and reports whether the scalar was valid.
func scalar(n *yaml.Node, to reflect.Value) (ok bool) {
	switch to.Kind() {
	case reflect.String:
		to.SetString(n.Value)
		return true
	case reflect.Bool:
		is, ok := Truth(n)
		to.SetBool(is)
		return ok
	case reflect.Int64: // the parser's own integers are octal with a leading zero, and accept 1_000
		i, err := strconv.ParseInt(n.Value, 10, 64)
		to.SetInt(i)
		return err == nil && n.Tag == "!!int" && strings.TrimPrefix(n.Value, "+") == strconv.FormatInt(i, 10)
	case reflect.Uint32: // even in quotes
		u, err := strconv.ParseUint(n.Value, 10, 32)
		to.SetUint(u)
		return err == nil && n.Value == strconv.FormatUint(u, 10)
	}
	return false
}

// Truth reads an unquoted boolean; ok is false for anything else.
func Truth(node *yaml.Node) (is, ok bool) {
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return false, false
	}
	word := strings.ToLower(node.Value)
	is = slices.Contains([]string{"true", "yes", "on"}, word)
	return is, is || slices.Contains([]string{"false", "no", "off"}, word)
}
