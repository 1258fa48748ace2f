package item

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Conditions on an attribute that exists, is missing, or has another type.
func TestConditionsOnMissingAttributesAndOtherTypes(t *testing.T) {
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
