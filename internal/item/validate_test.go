package item

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Writes that DynamoDB would always refuse are refused before they are sent. The error says why.
func TestInvalidWritesAreRefused(t *testing.T) {
	key := Key{"p", "s"}
	set := func(a ...Attr) Write { return Update{Key: key, Set: a} }
	put := func(name, value string) Write {
		return Put{Item: Item{"PK": S("p"), "SK": S("s"), name: S(value)}}
	}
	nested := func(depth int) (v Value) {
		for v = S("x"); depth > 0; depth-- {
			v = Map(Item{"m": v})
		}
		return v
	}
	listed := func(depth int) (v Value) {
		for v = S("x"); depth > 0; depth-- {
			v = &types.AttributeValueMemberL{Value: []Value{v}}
		}
		return v
	}
	many := func(n int) (out []Attr) {
		for i := range n {
			out = append(out, Attr{fmt.Sprint("a", i), N(1)})
		}
		return out
	}
	for _, c := range []struct {
		name string
		w    Write
		want string // part of the error; empty: accepted
	}{
		{"set", set(Attr{"a", S("")}), ""},
		{"no name", set(Attr{"", S("x")}), "attribute name of 0 bytes"},
		{"a name at its limit", put(strings.Repeat("a", maxAttributeName), "x"), ""},
		{"a name too long", put(strings.Repeat("a", maxAttributeName+1), "x"), "attribute name of 65536 bytes"},
		{"a part of the key", set(Attr{"PK", S("x")}), "part of the key"},
		{"named twice", Update{Key: key, Set: []Attr{{"a", N(1)}}, Remove: []string{"a"}}, `"a" is named by two actions`},
		{"set and added", Update{Key: key, Set: []Attr{{"a", N(1)}}, Add: []Attr{{"a", N(1)}}}, "two actions"},
		{"text is added", Update{Key: key, Add: []Attr{{"a", S("x")}}}, "ADD takes a number"},
		{"a set is added", Update{Key: key, Add: []Attr{{"a", SS("x")}}}, ""},
		{"a number is deleted", Update{Key: key, Del: []Attr{{"a", N(1)}}}, "DELETE takes a string set"},
		{"a number minus another", Update{Key: key, SetLess: []Less{{Name: "a", Value: N(1), Minus: "b"}}}, ""},
		{"text less another", Update{Key: key, SetLess: []Less{{Name: "a", Value: S("x"), Minus: "b"}}}, "only a number"},
		{"minus nothing", Update{Key: key, SetLess: []Less{{Name: "a", Value: N(1)}}}, "attribute name of 0 bytes"},
		{"as many operators as allowed", Update{Key: key, Set: many(MaxOperators)}, ""},
		{"one more", Update{Key: key, Set: many(MaxOperators + 1)},
			"update expression with 301 operators, at most 300 are accepted"},
		{"an expression too long", Update{Key: key, SetIfAbsent: many(MaxOperators/2 + 1)}, "at most 4096"},
		{"maps as deep as allowed", set(Attr{"a", nested(maxNesting)}), ""},
		{"deeper", set(Attr{"a", nested(maxNesting + 1)}), "nested deeper"},
		{"lists as deep as allowed", set(Attr{"a", listed(maxNesting)}), ""},
		{"lists deeper", set(Attr{"a", listed(maxNesting + 1)}), "nested deeper"},
		{"an empty name in a map", set(Attr{"a", Map(Item{"": S("x")})}), "map with an empty name"},
		{"an invalid entry of a map", set(Attr{"a", Map(Item{"m": &types.AttributeValueMemberN{Value: "x"}})}),
			`entry "m": number "x"`},
		{"an empty set", set(Attr{"a", SS()}), "empty set"},
		{"a set with a duplicate", set(Attr{"a", SS("x", "x")}), "twice"},
		{"no value", set(Attr{"a", nil}), "is no value"},
		{"key of an index", set(Attr{"GSI1SK", S(strings.Repeat("x", MaxSortKey))}), ""},
		{"an empty key of an index", set(Attr{"GSI1PK", S("")}), "key of an index"},
		{"a number as a key of an index", set(Attr{"GSI1PK", N(1)}),
			`attribute "GSI1PK": the key of an index must be a string that is not empty`},
		{"a key of an index too long", set(Attr{"GSI1SK", S(strings.Repeat("x", MaxSortKey+1))}), "at most 1024"},
		{"a key of an index at its limit", set(Attr{"GSI1PK", S(strings.Repeat("x", maxPartitionKey))}), ""},
		{"one byte more", set(Attr{"GSI1PK", S(strings.Repeat("x", maxPartitionKey+1))}), "at most 2048"},
		{"half a key", Delete{Key: Key{PK: "p"}}, "empty part"},
		{"the other half", Delete{Key: Key{SK: "s"}}, "empty part"},
		{"a partition key at its limit", Delete{Key: Key{strings.Repeat("x", maxPartitionKey), "s"}}, ""},
		{"too long", Delete{Key: Key{strings.Repeat("x", maxPartitionKey+1), "s"}}, "partition key of 2049 bytes"},
		{"a sort key at its limit", Delete{Key: Key{"p", strings.Repeat("x", MaxSortKey)}}, ""},
		{"a sort key too long", Delete{Key: Key{"p", strings.Repeat("x", MaxSortKey+1)}}, "sort key of 1025 bytes"},
		{"a check of nothing", Check{Key: key}, "without a condition"},
		{"a check with an empty conjunction", Check{Key: key, If: All()}, "without a condition"},
		{"a check", Check{Key: key, If: Exists("PK")}, ""},
		{"a condition without a name", Delete{Key: key, If: Exists("")}, "attribute name of 0 bytes"},
		{"absence without a name", Delete{Key: key, If: Absent("")}, "attribute name of 0 bytes"},
		{"a comparison without a name", Delete{Key: key, If: Compare("", Eq, N(1))}, "attribute name of 0 bytes"},
		{"a comparison without a value", Delete{Key: key, If: Compare("a", Eq, nil)}, "is no value"},
		{"equal to a boolean", Put{Item: key.Item(), If: Compare("a", Eq, Bool(true))}, ""},
		{"less than a boolean", Put{Item: key.Item(), If: Compare("a", Lt, Bool(true))}, "has no order"},
		{"between", Update{Key: key, If: Between("a", N(1), N(1))}, ""},
		{"between wrong bounds", Update{Key: key, If: Between("a", N(2), N(1))}, "the lower bound is not below"},
		{"between bounds of two types", Update{Key: key, If: Between("a", N(1), S("2"))}, "the lower bound is not below"},
		{"between missing values", Update{Key: key, If: Between("", nil, nil)}, "attribute name of 0 bytes"},
		{"an invalid condition of all", Delete{Key: key, If: All(Exists("a"), Exists(""))}, "attribute name of 0 bytes"},
		{"an invalid alternative", Delete{Key: key, If: Any(Exists("a"), Exists(""))}, "attribute name of 0 bytes"},
		{"no alternative", Delete{Key: key, If: All(Exists("a"), Any())}, "choice without alternatives"},
		{"an empty alternative", Delete{Key: key, If: Any(Exists("a"), All())}, "alternative without a condition"},
		{"as many conditions as allowed", Delete{Key: key, If: All(slices.Repeat([]Cond{Exists("a")}, 117)...)}, ""},
		{"a condition too long", Delete{Key: key, If: All(slices.Repeat([]Cond{Compare("a", Eq, N(1))}, 400)...)},
			"condition expression of"},
		{"too many operators", Delete{Key: key, If: All(slices.Repeat([]Cond{Compare("a", Eq, N(1))}, 151)...)},
			"301 operators"},
		{"one operator too many", Delete{Key: key, If: All(slices.Repeat([]Cond{Compare("a", Eq,
			N(1))}, 150)...)}, ""},
		{"one condition of each of two", Delete{Key: key,
			If: All(append(slices.Repeat([]Cond{Compare("a", Eq, N(1))}, 148), All(Exists("b")), All(Exists("c")))...)}, ""},
		{"text in order", Delete{Key: key, If: All(Compare("a", Lt, S("x")), Compare("a", Ge, B([]byte{1})))}, ""},
		{"a number too long", set(Attr{"a", numeral(strings.Repeat("7", 65) + "x")}), `number "` + strings.Repeat("7", 64) + `": no`},
		{"a false null", set(Attr{"a", &types.AttributeValueMemberNULL{}}), "null must be true"},
		{"a null", set(Attr{"a", Null()}), ""},
		{"an invalid number", set(Attr{"a", numeral("1.2.3")}), `attribute "a": number "1.2.3": no decimal number`},
		{"an invalid number in a list", set(Attr{"a", &types.AttributeValueMemberL{Value: []Value{N(1), numeral("x")}}}),
			`number "x"`},
		{"numbers", set(Attr{"a", &types.AttributeValueMemberNS{Value: []string{"1", "2"}}}), ""},
		{"a set with a number twice", set(Attr{"a", &types.AttributeValueMemberNS{Value: []string{"1", "1.0"}}}),
			`set with "1" twice`},
		{"an invalid number in a set", set(Attr{"a", &types.AttributeValueMemberNS{Value: []string{"x"}}}), `number "x"`},
		{"binaries", set(Attr{"a", &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}}}), ""},
		{"a binary twice", set(Attr{"a", &types.AttributeValueMemberBS{Value: [][]byte{{1}, {1}}}}), "twice"},
		{"the other part of the key", set(Attr{"SK", S("x")}), "part of the key"},
		{"an odd item", put("a", ""), ""},
		{"an invalid attribute of an item", Put{Item: Item{"PK": S("p"), "SK": S("s"), "a": nil}}, "is no value"},
		{"removed twice", Update{Key: key, Remove: []string{"a", "a"}}, "two actions"},
		{"taken and deleted", Update{Key: key, Add: []Attr{{"a", SS("x")}}, Del: []Attr{{"a", SS("y")}}}, "two actions"},
		{"an item too large", put("a", strings.Repeat("x", MaxItemSize-6)), "item of"},
		{"an item at its limit", put("a", strings.Repeat("x", MaxItemSize-7)), ""},
	} {
		check.Says(t, Validate(c.w), c.want, c.name)
	}
}

// Whole numbers of any size give their low bits, as in two's complement, and the nearest number of
// 64 bits.
func TestLargeWholeNumbersGiveTheirLowBits(t *testing.T) {
	number := func(s string) Value { return &types.AttributeValueMemberN{Value: s} }
	for _, c := range []struct {
		v            Value
		low, nearest int64
		ok           bool
	}{
		{number("0"), 0, 0, true}, {number("7"), 7, 7, true}, {number("-1"), -1, -1, true}, {number("1e1"), 10, 10, true},
		{number("18446744073709551616"), 0, math.MaxInt64, true}, // 2^64
		{number("18446744073709551623"), 7, math.MaxInt64, true},
		{number("18446744073709551615"), -1, math.MaxInt64, true},
		{number("-18446744073709551617"), -1, math.MinInt64, true},
		{number("1.5"), 0, 0, false}, {S("7"), 0, 0, false}, {nil, 0, 0, false},
	} {
		whole, ok := Whole(c.v)
		if ok != c.ok || ok && (LowBits(whole) != c.low || Nearest(whole) != c.nearest) {
			t.Errorf("%v: %v, %t, want the low bits %d, the nearest %d, %t", c.v, whole, ok, c.low, c.nearest, c.ok)
		}
	}
}
