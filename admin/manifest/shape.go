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

// survey goes through a manifest before it is read. It takes out the keys that begin with x-, where
// keys of ours stand, and notes where limits and values stand.
type survey struct {
	seen  map[part]bool     // aliases may stand for one part many times
	lines map[string]int    // of limits, by their place
	at    map[[2]int]string // places, by line and column of a value, or of a key in them
}

type part struct {
	node *yaml.Node
	as   reflect.Type
}

func newSurvey() survey { return survey{map[part]bool{}, map[string]int{}, map[[2]int]string{}} }

func (s survey) check(node *yaml.Node, as reflect.Type, where []string) error {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	switch node.Kind {
	case yaml.AliasNode:
		return s.check(node.Alias, as, where)
	case yaml.DocumentNode:
		return s.check(node.Content[0], as, where)
	case yaml.SequenceNode:
		if as.Kind() != reflect.Slice {
			return nil
		}
		for _, n := range node.Content {
			if err := s.check(n, as.Elem(), where); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		if as == reflect.TypeFor[limit]() {
			s.lines[strings.Join(where, ": ")] = node.Line
		}
		if s.seen[part{node, as}] {
			return nil
		}
		s.seen[part{node, as}] = true
		return s.mapping(node, as, where)
	}
	return nil
}

func (s survey) mapping(node *yaml.Node, as reflect.Type, where []string) error {
	var kept []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := key.Value
		if key.Kind == yaml.AliasNode {
			name = key.Alias.Value
		}
		var below reflect.Type // nil: nothing to look at
		switch reason := refused[as][name]; {
		case key.ShortTag() == "!!merge": // a merged mapping has the keys of this one
			below = as
		case as.Kind() == reflect.Map:
			below = as.Elem()
		case as.Kind() != reflect.Struct:
		case strings.HasPrefix(name, "x-"), reason != "" && empty(value):
			continue
		case reason != "":
			return fmt.Errorf("line %d: %s: %s", key.Line, strings.Join(append(where, name), ": "), reason)
		default:
			below = field(as, name)
		}
		kept = append(kept, key, value)
		at := where
		if below != as {
			at = append(slices.Clip(where), name)
		}
		s.at[[2]int{key.Line, key.Column}] = strings.Join(where, ": ")
		if below == nil {
			continue
		}
		s.at[[2]int{value.Line, value.Column}] = strings.Join(at, ": ")
		if err := s.check(value, below, at); err != nil {
			return err
		}
	}
	node.Content = kept
	return nil
}

// field returns the type of what a key of a mapping holds, nil if it is not known.
func field(as reflect.Type, name string) reflect.Type {
	for i := range as.NumField() {
		f := as.Field(i)
		switch key, inline, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case inline == "inline":
			if t := field(f.Type, name); t != nil {
				return t
			}
		case key == name:
			return f.Type
		}
	}
	return nil
}

// empty reports whether a value says nothing: null, or a list of nothing.
func empty(node *yaml.Node) bool {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node.ShortTag() == "!!null" || node.Kind == yaml.SequenceNode && len(node.Content) == 0
}
