package itemtest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Canonical returns the item in the one form that all equal items share:
// numbers in plain digits, as DynamoDB returns them, and sets sorted, which
// DynamoDB does not promise. The item given stays as it is.
func Canonical(it item.Item) item.Item {
	if it == nil {
		return nil
	}
	out := make(item.Item, len(it))
	for name, v := range it {
		out[name] = canonicalValue(v)
	}
	return out
}

func canonicalValue(v item.Value) item.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		if s := canonicalNumeral(v.Value); s != v.Value {
			return &types.AttributeValueMemberN{Value: s}
		}
	case *types.AttributeValueMemberM:
		return item.Map(Canonical(v.Value))
	case *types.AttributeValueMemberL:
		list := make([]item.Value, len(v.Value))
		for i, e := range v.Value {
			list[i] = canonicalValue(e)
		}
		return &types.AttributeValueMemberL{Value: list}
	case *types.AttributeValueMemberSS:
		return item.SS(slices.Sorted(slices.Values(v.Value))...)
	case *types.AttributeValueMemberNS:
		set := make([]string, len(v.Value))
		for i, s := range v.Value {
			set[i] = canonicalNumeral(s)
		}
		slices.Sort(set)
		return &types.AttributeValueMemberNS{Value: set}
	case *types.AttributeValueMemberBS:
		return &types.AttributeValueMemberBS{Value: slices.SortedFunc(slices.Values(v.Value), bytes.Compare)}
	}
	return v
}

// canonicalNumeral returns s as it is if it is no number.
func canonicalNumeral(s string) string {
	if len(s) <= 19 && len(s) > 0 && s[0] >= '1' && s[0] <= '9' && strings.Trim(s, "0123456789") == "" {
		return s
	}
	n := &types.AttributeValueMemberN{Value: s}
	if !item.Equal(n, n) {
		return s
	}
	return item.Plus(n, 0).(*types.AttributeValueMemberN).Value
}
