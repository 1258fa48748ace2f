package item

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// What conditions say of an attribute that is there, absent, or of another type.
func TestConditionsOnAbsentAttributesAndOtherTypes(t *testing.T) {
	it := Item{"n": N(7), "s": S("m"), "b": Bool(true), "set": SS("x", "y")}
	for _, c := range []struct {
		name string
		cond Cond
		want bool
	}{
		{"less", Compare("n", Lt, N(8)), true}, {"not less", Compare("n", Lt, N(7)), false},
		{"at most", Compare("n", Le, N(7)), true}, {"not at most", Compare("n", Le, N(6)), false},
		{"more", Compare("n", Gt, N(6)), true}, {"not more", Compare("n", Gt, N(7)), false},
		{"at least", Compare("n", Ge, N(7)), true}, {"not at least", Compare("n", Ge, N(8)), false},
		{"equal", Compare("n", Eq, N(7)), true}, {"not equal", Compare("n", Eq, N(8)), false},
		{"text in order", Compare("s", Lt, S("n")), true}, {"and not", Compare("s", Gt, S("n")), false},
		{"equal sets", Compare("set", Eq, SS("y", "x")), true},
		{"absent, less", Compare("x", Lt, N(8)), false}, {"absent, more", Compare("x", Ge, N(-8)), false},
		{"absent, equal", Compare("x", Eq, N(0)), false},
		{"of another type", Compare("n", Lt, S("z")), false}, {"equal to another type", Compare("n", Eq, S("7")), false},
		{"of a type without order", Compare("b", Le, Bool(true)), false},
		{"between", Between("n", N(7), N(7)), true}, {"below", Between("n", N(8), N(9)), false},
		{"above", Between("n", N(5), N(6)), false}, {"between, absent", Between("x", N(0), N(9)), false},
		{"there", Exists("n"), true}, {"not there", Exists("x"), false},
		{"absent", Absent("x"), true}, {"not absent", Absent("n"), false},
		{"all of none", All(), true}, {"any of none", Any(), false},
		{"all", All(Exists("n"), Exists("s")), true}, {"not all", All(Exists("n"), Exists("x")), false},
		{"any", Any(Exists("x"), Exists("s")), true}, {"not any", Any(Exists("x"), Absent("s")), false},
	} {
		check.Equal(t, c.cond.Holds(it), c.want, c.name)
	}
}

// Items that DynamoDB takes for equal have one form; what is given stays as it is.
func TestCanonicalForm(t *testing.T) {
	number := func(s string) Value { return &types.AttributeValueMemberN{Value: s} }
	numbers := func(s ...string) Value { return &types.AttributeValueMemberNS{Value: s} }
	for _, c := range []struct{ given, want Value }{
		{number("007"), number("7")}, {number("1e3"), number("1000")}, {number("-0"), number("0")},
		{number("7.50"), number("7.5")}, {number("12"), number("12")}, {number("many"), number("many")},
		{number(""), number("")}, {number("1x"), number("1x")},
		{SS("b", "a"), SS("a", "b")}, {numbers("3", "01"), numbers("1", "3")},
		{Map(Item{"x": number("1.0")}), Map(Item{"x": number("1")})},
		{&types.AttributeValueMemberL{Value: []Value{number("1.0"), S("b")}},
			&types.AttributeValueMemberL{Value: []Value{number("1"), S("b")}}},
		{&types.AttributeValueMemberBS{Value: [][]byte{{2}, {1}}}, &types.AttributeValueMemberBS{Value: [][]byte{{1},
			{2}}}},
	} {
		given := Item{"a": c.given}
		got := Canonical(given)["a"]
		if !sameForm(got, c.want) || given["a"] != c.given {
			t.Errorf("%v becomes %v, want %v", c.given, got, c.want)
		}
	}
	if Canonical(nil) != nil {
		t.Error("no item becomes one")
	}
}

// sameForm compares what is written, where Equal compares what it means.
func sameForm(a, b Value) bool {
	return Size(Item{"a": a}) == Size(Item{"a": b}) && textOf(a) == textOf(b)
}

func textOf(v Value) (out string) {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			out += s + ","
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			out += s + ","
		}
	case *types.AttributeValueMemberBS:
		for _, s := range v.Value {
			out += string(s) + ","
		}
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			out += textOf(e) + ","
		}
	case *types.AttributeValueMemberM:
		for name, e := range v.Value {
			out += name + textOf(e)
		}
	}
	return out
}
