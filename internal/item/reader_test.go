package item

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A list of strings has nothing else in it; an empty one, or none, has no strings.
func TestTextsOfAList(t *testing.T) {
	of := func(v ...Value) Value { return &types.AttributeValueMemberL{Value: v} }
	for _, c := range []struct {
		v    Value
		want []string
		ok   bool
	}{
		{of(S("a"), S("b")), []string{"a", "b"}, true}, {of(), nil, true},
		{of(S("a"), N(5)), nil, false}, {of(Null()), nil, false}, {S("a"), nil, false},
	} {
		if got, err := Strings(c.v); !slices.Equal(got, c.want) || (err == nil) != c.ok {
			t.Errorf("%v: %q, %v", c.v, got, err)
		}
	}
}
