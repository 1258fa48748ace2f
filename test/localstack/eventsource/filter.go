package eventsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Filter determines which records an event source mapping delivers. The zero Filter delivers all.
type Filter []object

// object is a JSON object. In a pattern, each field is the pattern of a nested object, or a list of
// texts and prefixes, such as ["INSERT", {"prefix": "MOD"}], one of which the text must match.
type object = map[string]any

// Limits of Lambda.
const (
	maxPatterns      = 10 // 5 by default, 10 on request
	maxPatternLength = 4096
)

// ParseFilter compiles patterns in JSON. A record passes if any of them matches. It supports the
// parts that the stack's patterns use: objects, and lists of texts and prefixes. Anything else is
// an error, as most of it is on Lambda too. If the stack uses more of Lambda's operators, add them
// here.
func ParseFilter(patterns []string) (f Filter, err error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("%d filters, at most %d are accepted", len(patterns), maxPatterns)
	}
	for _, text := range patterns {
		if len(text) > maxPatternLength {
			return nil, fmt.Errorf("filter of %d characters, at most %d are accepted", len(text), maxPatternLength)
		}
		var p object
		err := json.Unmarshal([]byte(text), &p)
		if err == nil {
			err = validate(p)
		}
		if err != nil {
			return nil, fmt.Errorf("filter %s: %w", text, err)
		}
		f = append(f, p)
	}
	return f, nil
}

// validate returns an error that names an unsupported part of a pattern.
func validate(part any) error {
	fields, isObject := part.(object)
	list, isList := part.([]any)
	switch {
	case !isObject && !isList:
		return fmt.Errorf("%v is neither an object nor a list", part)
	case len(fields)+len(list) == 0:
		return errors.New("an empty object or list matches nothing")
	}
	for name, below := range fields {
		if err := validate(below); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, e := range list {
		_, isText := e.(string)
		operator, _ := e.(object)
		if _, isPrefix := operator["prefix"].(string); !isText && (!isPrefix || len(operator) > 1) {
			return fmt.Errorf("%v; known are texts and prefixes", list)
		}
	}
	return nil
}

// Pass reports whether the record, the JSON object that Lambda would deliver, passes. Invalid JSON
// does not.
func (f Filter) Pass(record []byte) bool {
	var event any
	return len(f) == 0 || json.Unmarshal(record, &event) == nil &&
		slices.ContainsFunc(f, func(p object) bool { return matches(p, event) })
}

// matches reports whether a value, nil for none, matches a part of a pattern.
func matches(part, value any) bool {
	if fields, ok := part.(object); ok {
		in, _ := value.(object)
		for name, below := range fields {
			if !matches(below, in[name]) {
				return false
			}
		}
		return true
	}
	text, ok := value.(string)
	return ok && slices.ContainsFunc(part.([]any), func(e any) bool {
		operator, isOperator := e.(object)
		return e == text || isOperator && strings.HasPrefix(text, operator["prefix"].(string))
	})
}
