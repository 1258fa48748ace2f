package item

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// An item's size is what DynamoDB bills: names and values in bytes. A list or map takes three
// bytes, and one more for each entry. A number takes a byte for every pair of digits from the decimal
// point, one more, and one for its sign.
func TestSizesMatchTheBill(t *testing.T) {
	for _, c := range []struct {
		v    Value
		want int
	}{
		{S("äb"), 3}, {S(""), 0}, {B([]byte{1, 2, 3}), 3}, {Bool(true), 1}, {Null(), 1},
		{N(0), 1}, {N(7), 2}, {N(12), 2}, {N(123), 3}, {N(-123), 4}, {N(1200), 2}, {numeral("0.0012"), 2},
		{N(120), 3}, {numeral("0.012"), 3}, {numeral("1.5"), 3}, {N(-1000), 3},
		{numeral("many"), 4},
		{SS("a", "bc"), 3}, {&types.AttributeValueMemberNS{Value: []string{"1", "-123"}}, 6},
		{&types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}}, 3},
		{&types.AttributeValueMemberL{Value: []Value{S("ab"), N(1)}}, 3 + 1 + 2 + 1 + 2},
		{&types.AttributeValueMemberL{}, 3}, {Map(Item{"key": S("ab")}), 3 + 1 + 3 + 2}, {Map(nil), 3}, {nil, 0},
	} {
		if got := Size(Item{"name": c.v}); got != 4+c.want {
			t.Errorf("%#v: %d bytes, want %d", c.v, got-4, c.want)
		}
	}
	if got := Size(Item{"a": S("x"), "bc": N(1)}); got != 2+4 {
		t.Errorf("two attributes: %d bytes, want 6", got)
	}
	if Size(nil) != 0 {
		t.Error("a missing item has a size")
	}
}
