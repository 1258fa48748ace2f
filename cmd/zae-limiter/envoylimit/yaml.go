package envoylimit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// parser reads one file.
type parser struct {
	file  string
	wrong []error
}

func (p *parser) refuse(n *yaml.Node, format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Errorf("%s:%d: %s", p.file, n.Line, fmt.Sprintf(format, args...)))
}

// document returns the only document of a file; nil if nothing is there.
func document(text []byte) (*yaml.Node, error) {
	var all any
	if err := yaml.Unmarshal(text, &all); err != nil { // finds duplicate keys, and aliases without end
		return nil, err
	}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var more yaml.Node
	if err := d.Decode(&more); err == nil {
		return nil, fmt.Errorf("line %d: a second document, want one in a file", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return resolved(doc.Content[0]), nil
}

// parserLine is how the parser of YAML names a line.
var parserLine = regexp.MustCompile(`(?:construct errors:\s*)?line (\d+)`)

// worded returns what the parser of YAML says of a file.
func (p *parser) worded(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if at := parserLine.FindStringSubmatchIndex(text); at != nil && at[0] == 0 {
		return fmt.Errorf("%s:%s%s", p.file, text[at[2]:at[3]], text[at[1]:])
	}
	return fmt.Errorf("%s: %s", p.file, text)
}

// fields returns the values of a mapping by key, without those that are null; nil if there is none.
// Other keys are refused.
func (p *parser) fields(n *yaml.Node, accepted ...string) map[string]*yaml.Node {
	if n = resolved(n); n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		p.refuse(n, "found %s, want %s", shown(n), strings.Join(accepted, ", "))
		return nil
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolved(n.Content[i]), resolved(n.Content[i+1])
		switch {
		case key != nil && slices.Contains(accepted, key.Value):
			if value != nil {
				out[key.Value] = value
			}
		case key == nil:
			p.refuse(n.Content[i], "a key is null, want %s", strings.Join(accepted, ", "))
		case key.ShortTag() == "!!merge":
			p.refuse(key, "<< is not read, want the keys themselves")
		default:
			p.refuse(key, "%s is not known here, want %s", shown(key), strings.Join(accepted, ", "))
		}
	}
	return out
}

// list returns the items of a list; of nothing, none.
func (p *parser) list(n *yaml.Node, field string) []*yaml.Node {
	if n = resolved(n); n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		p.refuse(n, "%s is %s, want a list", field, shown(n))
		return nil
	}
	for _, item := range n.Content {
		if resolved(item) == nil {
			p.refuse(item, "nothing is in an item of %s", field)
		}
	}
	return n.Content
}

// text returns what stands there; of nothing, "".
func (p *parser) text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		p.refuse(n, "found %s, want a text", shown(n))
		return ""
	}
	return n.Value
}

// flag returns whether true stands there; nothing is false.
func (p *parser) flag(n *yaml.Node) (is bool) {
	if n != nil && n.Decode(&is) != nil {
		p.refuse(n, "found %s, want true or false", shown(n))
	}
	return is
}

// number returns the whole number of a field.
func (p *parser) number(of *yaml.Node, fields map[string]*yaml.Node, field string, least, most uint64) uint64 {
	n := fields[field]
	if n == nil {
		p.refuse(of, "%s is missing, want %d to %d", field, least, most)
		return least
	}
	number, err := strconv.ParseUint(n.Value, 10, 64)
	if err != nil || number < least || number > most {
		p.refuse(n, "%s is %s, want %d to %d", field, shown(n), least, most)
		return least
	}
	return number
}

// resolved returns what an alias stands for, and nil for null and for nothing.
func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.ShortTag() == "!!null" {
		return nil
	}
	return n
}

// shown returns what stands there, for messages.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}
