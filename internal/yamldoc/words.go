package yamldoc

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// parserLine matches the line number in an error of the YAML parser.
var parserLine = regexp.MustCompile(`^(?:yaml: )?(?:construct errors:\s*line (\d+)|line (\d+)|.* at L(\d+)\.C\d+): `)

// worded converts an error of the parser to a mistake.
func worded(err error) Mistake {
	found := parserLine.FindStringSubmatch(err.Error())
	if found == nil {
		return Mistake{0, strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	line, _ := strconv.Atoi(found[1] + found[2] + found[3]) // exactly one of them has digits
	text := err.Error()[len(found[0]):]
	if strings.Contains(text, "as a map key") {
		text = "found a list or a mapping as a key, want text"
	}
	return Mistake{line, text}
}

// Found describes the content of a node, for a mistake.
func Found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	}
	return fmt.Sprintf("%q", n.Value)
}

// shape describes the content that a type expects.
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
	case reflect.Bool:
		return "true or false"
	case reflect.Uint32:
		return fmt.Sprint("0 to ", uint32(math.MaxUint32))
	case reflect.Int64:
		return "a whole number"
	}
	return "a value"
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
