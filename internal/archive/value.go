package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxDepth bounds the nesting of lists and maps. DynamoDB allows 32 levels.
const maxDepth = 32

// value is an attribute value in DynamoDB's JSON. A valid value has exactly one field set.
type value struct {
	S    *string           `json:"S"`
	N    *string           `json:"N"`
	B    *[]byte           `json:"B"`
	BOOL *bool             `json:"BOOL"`
	NULL *bool             `json:"NULL"`
	M    *map[string]value `json:"M"`
	L    *[]value          `json:"L"`
	SS   *[]string         `json:"SS"`
	NS   *[]string         `json:"NS"`
	BS   *[][]byte         `json:"BS"`
}

// Tags of value types that JSON lacks. A value of such a type is an object with exactly one of
// these members. A map that looks like one is wrapped in $map, so every archived value can be
// decoded again.
const (
	tagBinary   = "$binary"   // base64
	tagStrings  = "$strings"  // sorted
	tagNumbers  = "$numbers"  // sorted as text
	tagBinaries = "$binaries" // sorted, base64
	tagMap      = "$map"
)

// plain returns the value in JSON types, without loss: strings, booleans, null, lists and maps as
// such, numbers as JSON numbers with exactly the stored digits, sets and binary values tagged. Sets
// are sorted, because they have no order.
func (v value) plain() (any, error) { return v.at(0) }

func (v value) at(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	if n := v.types(); n != 1 {
		return nil, fmt.Errorf("has %d value types, not one", n)
	}
	switch {
	case v.S != nil:
		return *v.S, nil
	case v.N != nil:
		return number(*v.N)
	case v.BOOL != nil:
		return *v.BOOL, nil
	case v.NULL != nil:
		if !*v.NULL {
			return nil, errors.New("is NULL false")
		}
		return nil, nil
	case v.B != nil:
		return map[string]any{tagBinary: *v.B}, nil
	case v.SS != nil:
		return map[string]any{tagStrings: slices.Sorted(slices.Values(*v.SS))}, nil
	case v.NS != nil:
		return numbers(*v.NS)
	case v.BS != nil:
		return map[string]any{tagBinaries: slices.SortedFunc(slices.Values(*v.BS), slices.Compare[[]byte])}, nil
	case v.L != nil:
		return list(*v.L, depth)
	default:
		return mapping(*v.M, depth)
	}
}

func (v value) types() int {
	n := 0
	for _, set := range []bool{
		v.S != nil, v.N != nil, v.B != nil, v.BOOL != nil, v.NULL != nil,
		v.M != nil, v.L != nil, v.SS != nil, v.NS != nil, v.BS != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

func numbers(texts []string) (any, error) {
	out := make([]json.Number, 0, len(texts))
	for _, text := range slices.Sorted(slices.Values(texts)) {
		n, err := number(text)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return map[string]any{tagNumbers: out}, nil
}

func list(items []value, depth int) (any, error) {
	out := make([]any, 0, len(items))
	for i, item := range items {
		p, err := item.at(depth + 1)
		if err != nil {
			return nil, fmt.Errorf("[%d] %w", i, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func mapping(items map[string]value, depth int) (any, error) {
	out := make(map[string]any, len(items))
	for _, name := range slices.Sorted(maps.Keys(items)) {
		p, err := items[name].at(depth + 1)
		if err != nil {
			return nil, fmt.Errorf("[%q] %w", clip(name), err)
		}
		out[name] = p
	}
	if len(out) == 1 {
		for _, tag := range []string{tagBinary, tagStrings, tagNumbers, tagBinaries, tagMap} {
			if _, ok := out[tag]; ok {
				return map[string]any{tagMap: out}, nil
			}
		}
	}
	return out, nil
}

// number checks that the text is a JSON number, the form in which DynamoDB writes numbers. The text
// is kept unchanged.
func number(text string) (json.Number, error) {
	// Valid JSON that begins like this is a number, possibly followed by spaces.
	begins := text != "" && strings.Contains("-0123456789", text[:1])
	if !begins || strings.TrimSpace(text) != text || !json.Valid([]byte(text)) {
		return "", fmt.Errorf("has %q for a number", clip(text))
	}
	return json.Number(text), nil
}
