package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// maxDepth bounds how deep metadata is nested.
const maxDepth = 16

// storedMap returns metadata as it is stored, or a map at a path in it. Accepted values are
// strings, booleans, whole numbers, finite floats, json.Number, nil, and maps and slices
// (map[string]any, []any, []string) of them.
func storedMap(path string, m map[string]any, depth int) (item.Item, error) {
	out := make(item.Item, len(m))
	for k, v := range m {
		if k == "" || !utf8.ValidString(k) {
			return nil, validate.Invalid(path, k, "keys in UTF-8 that are not empty")
		}
		var err error
		if out[k], err = storedValue(path+"."+k, v, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func storedValue(path string, v any, depth int) (item.Value, error) {
	if depth > maxDepth {
		return nil, validate.Invalid("Metadata", strings.TrimPrefix(path, "Metadata."),
			fmt.Sprintf("at most %d levels", maxDepth))
	}
	switch v := v.(type) {
	case nil:
		return item.Null(), nil
	case string:
		if !utf8.ValidString(v) { // DynamoDB would store another text
			return nil, validate.Invalid(path, v, "UTF-8")
		}
		return item.S(v), nil
	case bool:
		return item.Bool(v), nil
	case int:
		return item.N(int64(v)), nil
	case int64:
		return item.N(v), nil
	case float64:
		if size := math.Abs(v); v != 0 && !(1e-125 <= size && size <= 1e125) { // NaN is neither
			return nil, validate.Invalid(path, v, "a number that can be stored")
		}
		return &types.AttributeValueMemberN{Value: strconv.FormatFloat(v, 'g', -1, 64)}, nil
	case json.Number:
		n, ok := publicNumber(v.String())
		if _, whole := n.(int64); !ok || !whole && !strings.ContainsAny(v.String(), ".eE") {
			return nil, validate.Invalid(path, validate.Plain(v.String()), "a number of 64 bits")
		}
		return storedValue(path, n, depth)
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return storedValue(path, list, depth)
	case []any:
		list := make([]item.Value, len(v))
		for i, e := range v {
			var err error
			if list[i], err = storedValue(fmt.Sprintf("%s[%d]", path, i), e, depth+1); err != nil {
				return nil, err
			}
		}
		return &types.AttributeValueMemberL{Value: list}, nil
	case map[string]any:
		m, err := storedMap(path, v, depth+1)
		return item.Map(m), err
	}
	kind := fmt.Sprintf("a %T", v)
	if _, ok := v.(time.Time); ok { // as YAML reads 2024-01-01
		kind = "a time (in YAML, a date without quotes)"
	}
	accepted := "text, a number, true or false, nil, or maps and lists of these"
	return nil, validate.Invalid(path, validate.Plain(kind), accepted)
}

// publicMap returns stored metadata: whole numbers that fit as int64, others as
// float64. What has no counterpart is left out.
func publicMap(it item.Item) map[string]any {
	if len(it) == 0 {
		return nil
	}
	out := make(map[string]any, len(it))
	for k, v := range it {
		if p, ok := publicValue(v); ok {
			out[k] = p
		}
	}
	return out
}

func publicValue(v item.Value) (any, bool) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, true
	case *types.AttributeValueMemberBOOL:
		return v.Value, true
	case *types.AttributeValueMemberNULL:
		return nil, true
	case *types.AttributeValueMemberN:
		return publicNumber(v.Value)
	case *types.AttributeValueMemberM:
		return publicMap(v.Value), true
	case *types.AttributeValueMemberL:
		list := make([]any, 0, len(v.Value))
		for _, e := range v.Value {
			if p, ok := publicValue(e); ok {
				list = append(list, p)
			}
		}
		return list, true
	case *types.AttributeValueMemberSS:
		return v.Value, true
	}
	return nil, false
}

func publicNumber(s string) (any, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	if r, ok := new(big.Rat).SetString(s); ok && r.IsInt() && r.Num().IsInt64() {
		return r.Num().Int64(), true
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}
