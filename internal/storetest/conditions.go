package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// condCase is a condition and whether it holds for condItem.
type condCase struct {
	name string
	c    item.Cond
	want bool
}

var cmp = item.Compare

var (
	condList = &types.AttributeValueMemberL{Value: []item.Value{item.N(1), item.S("a")}}
	condMap  = item.Map(item.Item{"a": item.N(1), "b": item.Map(item.Item{"c": item.Null()})})
	condItem = pairs(
		"n", item.N(10), "neg", item.N(-10), "big", num(tall), "frac", num("10.5"), "s", item.S("abc"), "e", item.S(""),
		"bin", &types.AttributeValueMemberB{Value: []byte{1, 200}}, "t", item.Bool(true), "null", item.Null(),
		"set", item.SS("x", "y"), "list", condList, "map", condMap,
	)
)

var comparisons = []condCase{
	{"exists", item.Exists("n"), true}, {"exists null", item.Exists("null"), true},
	{"exists not", item.Exists("x"), false},
	{"absent", item.Absent("x"), true}, {"absent not", item.Absent("null"), false},
	{"=", cmp("n", item.Eq, item.N(10)), true}, {"= by value", cmp("n", item.Eq, num("1.0e1")), true},
	{"= not", cmp("n", item.Eq, num("10.0000001")), false},
	{"= 38 digits", cmp("big", item.Eq, num(tall)), true},
	{"<", cmp("n", item.Lt, item.N(11)), true}, {"< not", cmp("n", item.Lt, item.N(10)), false},
	{"<=", cmp("n", item.Le, item.N(10)), true}, {"<= not", cmp("n", item.Le, item.N(9)), false},
	{">", cmp("n", item.Gt, item.N(9)), true}, {"> not", cmp("n", item.Gt, item.N(10)), false},
	{">=", cmp("n", item.Ge, item.N(10)), true}, {">= not", cmp("n", item.Ge, item.N(11)), false},
	{"negative", cmp("neg", item.Lt, item.N(-9)), true}, {"numbers are no texts", cmp("n", item.Gt, item.N(9)), true},
	{"fraction", cmp("frac", item.Gt, item.N(10)), true},
	{"huge", cmp("big", item.Gt, num("9223372036854775807")), true},
	{"string <", cmp("s", item.Lt, item.S("abd")), true}, {"string prefix", cmp("s", item.Gt, item.S("ab")), true},
	{"string is bytes", cmp("s", item.Gt, item.S("Z")), true},
	{"empty string", cmp("e", item.Eq, item.S("")), true}, {"empty string <", cmp("e", item.Lt, item.S("a")), true},
	{"binary is unsigned", cmp("bin", item.Gt, &types.AttributeValueMemberB{Value: []byte{1, 100}}), true},
	{"bool", cmp("t", item.Eq, item.Bool(true)), true}, {"bool not", cmp("t", item.Eq, item.Bool(false)), false},
	{"null", cmp("null", item.Eq, item.Null()), true},
	{"set in any order", cmp("set", item.Eq, item.SS("y", "x")), true},
	{"set not", cmp("set", item.Eq, item.SS("x")), false},
	{"list", cmp("list", item.Eq, condList), true},
	{"list not", cmp("list", item.Eq, &types.AttributeValueMemberL{Value: []item.Value{item.S("a"), item.N(1)}}), false},
	{"map", cmp("map", item.Eq, condMap), true},
	{"map not", cmp("map", item.Eq, item.Map(item.Item{"a": item.N(1)})), false},
	{"other type =", cmp("s", item.Eq, item.N(1)), false}, {"other type <", cmp("s", item.Lt, item.N(1)), false},
	{"other type >=", cmp("n", item.Ge, item.S("")), false},
	{"absent =", cmp("x", item.Eq, item.N(0)), false}, {"absent <", cmp("x", item.Lt, item.N(1)), false},
	{"absent >=", cmp("x", item.Ge, item.N(-1)), false},
	{"null is no number", cmp("null", item.Le, item.N(0)), false},
	{"between", item.Between("n", item.N(9), item.N(11)), true},
	{"between includes", item.Between("n", item.N(10), item.N(10)), true},
	{"between not", item.Between("n", item.N(11), item.N(12)), false},
	{"between absent", item.Between("x", item.N(0), item.N(1)), false},
	{"between other type", item.Between("s", item.N(0), item.N(1)), false},
	{"between strings", item.Between("s", item.S("a"), item.S("b")), true},
}

var combinations = []condCase{
	{"all", item.All(item.Exists("n"), item.Absent("x")), true},
	{"all not", item.All(item.Exists("n"), item.Exists("x")), false}, {"all of none", item.All(), true},
	{"any", item.Any(item.Exists("x"), item.Exists("n")), true},
	{"any not", item.Any(item.Exists("x"), item.Exists("y")), false}, {"any of one", item.Any(item.Exists("n")), true},
	{"any within all", item.All(item.Exists("x"), item.Any(item.Exists("n"), item.Exists("s"))), false},
	{"any before all", item.All(item.Any(item.Exists("n"), item.Exists("s")), item.Exists("x")), false},
	{"all within any", item.Any(item.All(item.Exists("n"), item.Exists("x")), item.Exists("s")), true},
	{"all after any", item.Any(item.Exists("s"), item.All(item.Exists("n"), item.Exists("x"))), true},
	{"one attribute twice", item.All(cmp("n", item.Ge, item.N(10)), cmp("n", item.Le, item.N(10))), true},
	{"all of none within any of one", item.All(item.All(), item.Any(item.Exists("n"))), true},
}

// testConditions tests whether conditions hold for the same stored item, with an update that
// changes something and one that does not.
func testConditions(t *testing.T, db store.Lister) {
	for _, tt := range slices.Concat(comparisons, combinations) {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, tt.c.Holds(stored(item.Key{}, condItem...)), tt.want, "in memory it holds")
			step{before: condItem, write: item.Update{Set: one("w", item.N(1)), If: tt.c}}.run(t, db)
			step{before: condItem, write: item.Update{If: tt.c}}.run(t, db)
		})
	}
	for name, c := range map[string]item.Cond{
		"exists": yes, "absent": no, "=": cmp("n", item.Eq, item.N(0)), "between": item.Between("n", item.N(0), item.N(1)),
	} {
		t.Run(fmt.Sprintf("%s without an item", name), func(t *testing.T) {
			step{write: item.Update{Set: one("w", item.N(1)), If: c}}.run(t, db)
		})
	}
}
