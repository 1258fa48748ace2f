package dbtest

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// testConditions puts the same item each time and asks whether a condition
// holds, by an update that changes something and one that does not.
func testConditions(t *testing.T, db store.Store) {
	set := table.SS("x", "y")
	list := &types.AttributeValueMemberL{Value: []table.Value{table.N(1), table.S("a")}}
	nested := table.Map(table.Item{"a": table.N(1), "b": table.Map(table.Item{"c": table.Null()})})
	before := pairs(
		"n", table.N(10), "neg", table.N(-10), "big", num(tall), "frac", num("10.5"), "s", table.S("abc"), "e", table.S(""),
		"bin", &types.AttributeValueMemberB{Value: []byte{1, 200}}, "t", table.Bool(true), "null", table.Null(),
		"set", set, "list", list, "map", nested,
	)
	cmp := table.Compare
	for _, tt := range []struct {
		name string
		c    table.Cond
		want bool
	}{
		{"exists", table.Exists("n"), true}, {"exists null", table.Exists("null"), true}, {"exists not", table.Exists("x"), false},
		{"absent", table.Absent("x"), true}, {"absent not", table.Absent("null"), false},
		{"=", cmp("n", table.Eq, table.N(10)), true}, {"= by value", cmp("n", table.Eq, num("1.0e1")), true}, {"= not", cmp("n", table.Eq, num("10.0000001")), false},
		{"= 38 digits", cmp("big", table.Eq, num(tall)), true},
		{"<", cmp("n", table.Lt, table.N(11)), true}, {"< not", cmp("n", table.Lt, table.N(10)), false},
		{"<=", cmp("n", table.Le, table.N(10)), true}, {"<= not", cmp("n", table.Le, table.N(9)), false},
		{">", cmp("n", table.Gt, table.N(9)), true}, {"> not", cmp("n", table.Gt, table.N(10)), false},
		{">=", cmp("n", table.Ge, table.N(10)), true}, {">= not", cmp("n", table.Ge, table.N(11)), false},
		{"negative", cmp("neg", table.Lt, table.N(-9)), true}, {"numbers are no texts", cmp("n", table.Gt, table.N(9)), true},
		{"fraction", cmp("frac", table.Gt, table.N(10)), true}, {"huge", cmp("big", table.Gt, num("9223372036854775807")), true},
		{"string <", cmp("s", table.Lt, table.S("abd")), true}, {"string prefix", cmp("s", table.Gt, table.S("ab")), true}, {"string is bytes", cmp("s", table.Gt, table.S("Z")), true},
		{"empty string", cmp("e", table.Eq, table.S("")), true}, {"empty string <", cmp("e", table.Lt, table.S("a")), true},
		{"binary is unsigned", cmp("bin", table.Gt, &types.AttributeValueMemberB{Value: []byte{1, 100}}), true},
		{"bool", cmp("t", table.Eq, table.Bool(true)), true}, {"bool not", cmp("t", table.Eq, table.Bool(false)), false},
		{"null", cmp("null", table.Eq, table.Null()), true},
		{"set in any order", cmp("set", table.Eq, table.SS("y", "x")), true}, {"set not", cmp("set", table.Eq, table.SS("x")), false},
		{"list", cmp("list", table.Eq, list), true}, {"list not", cmp("list", table.Eq, &types.AttributeValueMemberL{Value: []table.Value{table.S("a"), table.N(1)}}), false},
		{"map", cmp("map", table.Eq, nested), true}, {"map not", cmp("map", table.Eq, table.Map(table.Item{"a": table.N(1)})), false},
		{"other type =", cmp("s", table.Eq, table.N(1)), false}, {"other type <", cmp("s", table.Lt, table.N(1)), false}, {"other type >=", cmp("n", table.Ge, table.S("")), false},
		{"absent =", cmp("x", table.Eq, table.N(0)), false}, {"absent <", cmp("x", table.Lt, table.N(1)), false}, {"absent >=", cmp("x", table.Ge, table.N(-1)), false},
		{"null is no number", cmp("null", table.Le, table.N(0)), false},
		{"between", table.Between("n", table.N(9), table.N(11)), true}, {"between includes", table.Between("n", table.N(10), table.N(10)), true},
		{"between not", table.Between("n", table.N(11), table.N(12)), false}, {"between absent", table.Between("x", table.N(0), table.N(1)), false},
		{"between other type", table.Between("s", table.N(0), table.N(1)), false}, {"between strings", table.Between("s", table.S("a"), table.S("b")), true},
		{"all", table.All(table.Exists("n"), table.Absent("x")), true}, {"all not", table.All(table.Exists("n"), table.Exists("x")), false}, {"all of none", table.All(), true},
		{"any", table.Any(table.Exists("x"), table.Exists("n")), true}, {"any not", table.Any(table.Exists("x"), table.Exists("y")), false}, {"any of one", table.Any(table.Exists("n")), true},
		{"any within all", table.All(table.Exists("x"), table.Any(table.Exists("n"), table.Exists("s"))), false},
		{"any before all", table.All(table.Any(table.Exists("n"), table.Exists("s")), table.Exists("x")), false},
		{"all within any", table.Any(table.All(table.Exists("n"), table.Exists("x")), table.Exists("s")), true},
		{"all after any", table.Any(table.Exists("s"), table.All(table.Exists("n"), table.Exists("x"))), true},
		{"one attribute twice", table.All(cmp("n", table.Ge, table.N(10)), cmp("n", table.Le, table.N(10))), true},
		{"all of none within any of one", table.All(table.All(), table.Any(table.Exists("n"))), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := append(append(attrs{}, before...), table.Attr{Name: "w", Value: table.N(1)})
			step{before: before, write: update(table.Update{Set: one("w", table.N(1)), If: tt.c}), after: after, refused: !tt.want}.run(t, db)
			step{before: before, write: update(table.Update{If: tt.c}), after: before, refused: !tt.want}.run(t, db)
		})
	}
	for name, c := range map[string]table.Cond{
		"exists": yes, "absent": no, "=": cmp("n", table.Eq, table.N(0)), "between": table.Between("n", table.N(0), table.N(1)),
	} {
		t.Run(fmt.Sprintf("%s without an item", name), func(t *testing.T) {
			step{write: update(table.Update{Set: one("w", table.N(1)), If: c}), after: one("w", table.N(1)), refused: name != "absent"}.run(t, db)
		})
	}
}
