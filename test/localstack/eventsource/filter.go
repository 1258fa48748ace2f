package eventsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Filter decides which records an event source mapping delivers. The zero
// Filter delivers all.
type Filter struct {
	patterns []pattern
}

// Limits of Lambda.
const (
	maxPatterns      = 10 // 5 by default, 10 on request
	maxPatternLength = 4096
)

// pattern has, for each field, either the pattern of the object below, or the texts of which a leaf
// has to be one.
type pattern map[string]node

type node struct {
	below pattern
	texts []text
}

// text is a text, or the beginning of one.
type text struct {
	value  string
	prefix bool
}

// ParseFilter compiles patterns in JSON. A record passes when any of them matches. It knows the
// parts of the stack's patterns: objects, and lists of texts and prefixes. Anything else in a
// pattern is an error, most of it on Lambda too: a stack that comes to use more of Lambda's
// operators needs them here.
func ParseFilter(patterns []string) (Filter, error) {
	if len(patterns) > maxPatterns {
		return Filter{}, fmt.Errorf("%d filters, at most %d are accepted", len(patterns), maxPatterns)
	}
	var f Filter
	for _, text := range patterns {
		if len(text) > maxPatternLength {
			return Filter{}, fmt.Errorf("filter of %d characters, at most %d are accepted", len(text), maxPatternLength)
		}
		var tree map[string]any
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			return Filter{}, fmt.Errorf("filter %s: %w", text, err)
		}
		p, err := parsePattern(tree)
		if err != nil {
			return Filter{}, fmt.Errorf("filter %s: %w", text, err)
		}
		f.patterns = append(f.patterns, p)
	}
	return f, nil
}

// Pass reports whether the record, the JSON object that Lambda would deliver,
// passes. JSON that cannot be read does not.
func (f Filter) Pass(record []byte) bool {
	if len(f.patterns) == 0 {
		return true
	}
	var event map[string]any
	return json.Unmarshal(record, &event) == nil &&
		slices.ContainsFunc(f.patterns, func(p pattern) bool { return p.matches(event) })
}

func parsePattern(tree map[string]any) (pattern, error) {
	if len(tree) == 0 {
		return nil, errors.New("an empty object matches nothing")
	}
	p := pattern{}
	for name, value := range tree {
		var n node
		var err error
		switch value := value.(type) {
		case map[string]any:
			n.below, err = parsePattern(value)
		case []any:
			n.texts, err = parseTexts(value)
		default:
			err = fmt.Errorf("%v is neither an object nor a list", value)
		}
		if p[name] = n; err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return p, nil
}

func parseTexts(list []any) (out []text, err error) {
	if len(list) == 0 {
		return nil, errors.New("an empty list matches nothing")
	}
	for _, e := range list {
		var t text
		operator, isOperator := e.(map[string]any)
		if isOperator && len(operator) == 1 {
			e = operator["prefix"]
		}
		var ok bool
		if t.value, ok = e.(string); !ok {
			return nil, fmt.Errorf("%v; known are texts and prefixes", list)
		}
		t.prefix = isOperator
		out = append(out, t)
	}
	return out, nil
}

func (p pattern) matches(event map[string]any) bool {
	for name, n := range p {
		switch value := event[name].(type) {
		case map[string]any:
			if n.below == nil || !n.below.matches(value) {
				return false
			}
		case string:
			if !slices.ContainsFunc(n.texts, func(t text) bool {
				return value == t.value || t.prefix && strings.HasPrefix(value, t.value)
			}) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
