package item

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Equal agrees with DynamoDB: numbers are equal by value, sets in any order, and values of two
// types never. Entries of two of these lists differ, and all entries of one list are equal.
func TestEqualMatchesDynamoDB(t *testing.T) {
	list := func(v ...Value) Value { return &types.AttributeValueMemberL{Value: v} }
	numbers := func(s ...string) Value { return &types.AttributeValueMemberNS{Value: s} }
	binaries := func(b ...[]byte) Value { return &types.AttributeValueMemberBS{Value: b} }
	all := [][]Value{
		{N(1), numeral("1.0"), numeral("01e0")}, {N(-1)}, {N(10), numeral("010")}, {N(8)}, {numeral("0.1")},
		{numeral("123456789012345678901"),
			numeral("123456789012345678901.0")},
		{S("1"), S("1")}, {S("")}, {B([]byte("1"))}, {B(nil), B([]byte{})},
		{Bool(true), Bool(true)}, {Bool(false)}, {Null(), Null()},
		{Map(Item{"a": N(1)}), Map(Item{"a": numeral("1.0")})}, {Map(Item{"a": N(2)})}, {Map(Item{"b": N(1)})},
		{Map(nil), Map(Item{})},
		{Map(Item{"a": N(1), "b": N(1)})},
		{list(N(1), S("a")), list(numeral("1.0"), S("a"))}, {list(S("a"), N(1))}, {list(), list()}, {list(N(1))},
		{SS("a", "b"), SS("b", "a")}, {SS("a")}, {SS("a", "c")},
		{numbers("1", "2"), numbers("2.0", "1")}, {numbers("1")}, {numbers("1", "3")}, {numbers("x")},
		{binaries([]byte("a"), []byte("b")), binaries([]byte("b"), []byte("a"))}, {binaries([]byte("a"))},
		{binaries([]byte("a"), []byte("c"))},
	}
	for i, same := range all {
		for j, others := range all {
			for _, a := range same {
				for _, b := range others {
					if n, ok := a.(*types.AttributeValueMemberNS); ok && n.Value[0] == "x" {
						continue // not numbers, so equal to nothing
					}
					check.Equal(t, Equal(a, b), i == j, "%#v and %#v", a, b)
				}
			}
		}
	}
	if x := numbers("x"); Equal(x, x) || Equal(x, numbers("1")) || Equal(nil, N(1)) || Equal(nil, nil) {
		t.Error("a missing value equals another one")
	}
	a := Item{"a": N(1)}
	if !EqualItems(nil, Item{}) || EqualItems(a, nil) || EqualItems(a, Item{"b": N(1)}) || !EqualItems(a,
		Item{"a": N(1)}) {
		t.Error("items are not compared by their contents")
	}
}
