package itemtest

import (
	"bytes"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Items that DynamoDB takes for equal have one form; what is given stays as it is.
func TestCanonicalForm(t *testing.T) {
	number := func(s string) item.Value { return &types.AttributeValueMemberN{Value: s} }
	form := func(v item.Value) []byte { return JSON(item.Item{"a": v}) }
	numbers := func(s ...string) item.Value { return &types.AttributeValueMemberNS{Value: s} }
	for _, c := range []struct{ given, want item.Value }{
		{number("007"), number("7")}, {number("1e3"), number("1000")}, {number("-0"), number("0")},
		{number("7.50"), number("7.5")}, {number("12"), number("12")}, {number("many"), number("many")},
		{number(""), number("")}, {number("1x"), number("1x")},
		{item.SS("b", "a"), item.SS("a", "b")}, {numbers("3", "01"), numbers("1", "3")},
		{item.Map(item.Item{"x": number("1.0")}), item.Map(item.Item{"x": number("1")})},
		{&types.AttributeValueMemberL{Value: []item.Value{number("1.0"), item.S("b")}},
			&types.AttributeValueMemberL{Value: []item.Value{number("1"), item.S("b")}}},
		{&types.AttributeValueMemberBS{Value: [][]byte{{2}, {1}}}, &types.AttributeValueMemberBS{Value: [][]byte{{1},
			{2}}}},
	} {
		given := item.Item{"a": c.given}
		got := Canonical(given)["a"]
		if !bytes.Equal(form(got), form(c.want)) || given["a"] != c.given {
			t.Errorf("%v becomes %v, want %v", c.given, got, c.want)
		}
	}
	if Canonical(nil) != nil {
		t.Error("no item becomes one")
	}
}
