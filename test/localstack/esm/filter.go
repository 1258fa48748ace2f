package esm

import (
	"encoding/json"
	"errors"
	"fmt"
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

// ParseFilter compiles patterns in JSON. A record passes when any of them
// matches. What Lambda does not accept is an error: an operator it does not
// know, an empty list, a bare value where a list is needed.
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
	if json.Unmarshal(record, &event) != nil {
		return false
	}
	for _, p := range f.patterns {
		if p.matches(event) {
			return true
		}
	}
	return false
}

// pattern is a conjunction of fields and of $or groups.
type pattern struct {
	fields map[string]node
	or     []pattern // any of them; empty when there is no $or
}

// node is either a pattern of the object below or a list of rules for a leaf.
type node struct {
	below *pattern
	rules []rule
}

// rule tests a leaf. present is false when the field is absent.
type rule func(value any, present bool) bool

func parsePattern(tree map[string]any) (pattern, error) {
	if len(tree) == 0 {
		return pattern{}, errors.New("an empty object matches nothing")
	}
	p := pattern{fields: map[string]node{}}
	for name, value := range tree {
		var err error
		switch value := value.(type) {
		case map[string]any:
			var below pattern
			below, err = parsePattern(value)
			p.fields[name] = node{below: &below}
		case []any:
			if name == "$or" {
				p.or, err = parseOr(value)
				break
			}
			var rules []rule
			rules, err = parseRules(value)
			p.fields[name] = node{rules: rules}
		default:
			err = fmt.Errorf("%v is neither an object nor a list", value)
		}
		if err != nil {
			return pattern{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return p, nil
}

func parseOr(list []any) ([]pattern, error) {
	if len(list) < 2 {
		return nil, errors.New("needs two or more objects")
	}
	var out []pattern
	for _, e := range list {
		tree, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%v is not an object", e)
		}
		p, err := parsePattern(tree)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (p pattern) matches(event map[string]any) bool {
	for name, n := range p.fields {
		value, present := event[name]
		if !n.matches(value, present) {
			return false
		}
	}
	if len(p.or) == 0 {
		return true
	}
	for _, alternative := range p.or {
		if alternative.matches(event) {
			return true
		}
	}
	return false
}

func (n node) matches(value any, present bool) bool {
	if n.below != nil {
		object, _ := value.(map[string]any) // absent: only exists:false below can match
		return n.below.matches(object)
	}
	if _, object := value.(map[string]any); object {
		present, value = false, nil // rules see leaves only, exists included
	}
	candidates := []any{value}
	if list, ok := value.([]any); ok && present {
		candidates, present = list, len(list) > 0
		if !present {
			candidates = []any{nil}
		}
	}
	for _, r := range n.rules {
		for _, candidate := range candidates {
			if r(candidate, present) {
				return true
			}
		}
	}
	return false
}

func parseRules(list []any) ([]rule, error) {
	if len(list) == 0 {
		return nil, errors.New("an empty list matches nothing")
	}
	var rules []rule
	for _, e := range list {
		r, err := parseRule(e)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(e any) (rule, error) {
	operator, ok := e.(map[string]any)
	if !ok {
		if _, list := e.([]any); list {
			return nil, fmt.Errorf("%v: a list within a list", e)
		}
		return func(v any, present bool) bool { return present && v == e }, nil
	}
	if len(operator) != 1 {
		return nil, fmt.Errorf("%v: one operator is needed", operator)
	}
	for name, operand := range operator {
		return parseOperator(name, operand)
	}
	panic("bug: unreachable")
}

func parseOperator(name string, operand any) (rule, error) {
	text, isText := operand.(string)
	switch {
	case name == "prefix" && isText:
		return onText(func(v string) bool { return strings.HasPrefix(v, text) }), nil
	case name == "suffix" && isText:
		return onText(func(v string) bool { return strings.HasSuffix(v, text) }), nil
	case name == "equals-ignore-case" && isText:
		return onText(func(v string) bool { return strings.EqualFold(v, text) }), nil
	case name == "anything-but":
		return anythingBut(operand)
	case name == "numeric":
		return numeric(operand)
	case name == "exists":
		if want, ok := operand.(bool); ok {
			return func(_ any, present bool) bool { return present == want }, nil
		}
	}
	return nil, fmt.Errorf("operator %q with %v; accepted are prefix, suffix, equals-ignore-case, anything-but, "+
		"numeric, exists", name, operand)
}

func onText(test func(string) bool) rule {
	return func(v any, present bool) bool {
		s, ok := v.(string)
		return present && ok && test(s)
	}
}

func anythingBut(operand any) (rule, error) {
	list, ok := operand.([]any)
	if !ok {
		list = []any{operand}
	}
	if len(list) == 0 {
		return nil, errors.New("anything-but needs a value")
	}
	for _, e := range list {
		switch e.(type) {
		case string, float64:
		default:
			return nil, fmt.Errorf("anything-but %v; accepted are strings and numbers", e)
		}
	}
	return func(v any, present bool) bool {
		if !present {
			return false
		}
		for _, e := range list {
			if v == e {
				return false
			}
		}
		return true
	}, nil
}

// numeric compares JSON numbers. DynamoDB JSON carries numbers as strings, so
// it never matches inside an image, as on AWS.
func numeric(operand any) (rule, error) {
	list, _ := operand.([]any)
	if len(list) != 2 && len(list) != 4 {
		return nil, fmt.Errorf("numeric %v; accepted are one or two pairs of comparison and number", operand)
	}
	var tests []func(float64) bool
	for i := 0; i < len(list); i += 2 {
		sign, _ := list[i].(string)
		bound, ok := list[i+1].(float64)
		compare := map[string]func(float64) bool{
			"=":  func(v float64) bool { return v == bound },
			">":  func(v float64) bool { return v > bound },
			">=": func(v float64) bool { return v >= bound },
			"<":  func(v float64) bool { return v < bound },
			"<=": func(v float64) bool { return v <= bound },
		}[sign]
		if compare == nil || !ok {
			return nil, fmt.Errorf("numeric %v; accepted are = > >= < <= with a number", operand)
		}
		tests = append(tests, compare)
	}
	return func(v any, present bool) bool {
		number, ok := v.(float64)
		if !present || !ok {
			return false
		}
		for _, test := range tests {
			if !test(number) {
				return false
			}
		}
		return true
	}, nil
}
