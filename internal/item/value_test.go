package item

import (
	"math"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Numbers that share memory, and conditions on them, stay unchanged when more numbers are made. The
// same holds without Numbers.
func TestNumbersThatShareMemoryStayUnchanged(t *testing.T) {
	want := []int64{0, 7, -1, math.MaxInt64, math.MinInt64}
	for len(want) < 100 {
		want = append(want, int64(len(want))*1_000_000_007)
	}
	for _, numbers := range []*Numbers{{}, nil} {
		var made []Value
		var conds []Cond
		for _, n := range want {
			made = append(made, numbers.N(n))
			conds = append(conds, numbers.Compare("n", Ge, numbers.N(n)))
		}
		for i, n := range want {
			if got := made[i].(*types.AttributeValueMemberN).Value; got != N(n).(*types.AttributeValueMemberN).Value {
				t.Errorf("number %d is %s, want %d", i, got, n)
			}
			if !conds[i].Holds(Item{"n": N(n)}) || n > math.MinInt64 && conds[i].Holds(Item{"n": N(n - 1)}) {
				t.Errorf("condition %d does not compare with %d", i, n)
			}
		}
	}
}

// A dozen numbers take two allocations: one for the values, and one for the digits.
func TestNumbersAllocateLittle(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		var numbers Numbers
		for i := range int64(atOnce) {
			numbers.N(1_000_000_000 + i)
		}
	})
	if n > 2 {
		t.Errorf("%v allocations, want 2", n)
	}
}

// Texts, bytes and numbers are ordered, each only among its own type.
func TestValuesAreOrderedWithinTheirType(t *testing.T) {
	big := numeral("99999999999999999999")
	for _, c := range []struct {
		a, b  Value
		order int
		ok    bool
	}{
		{N(1), N(2), -1, true}, {N(2), N(1), 1, true}, {N(1), numeral("1.0"), 0, true}, {N(-1), N(1), -1, true},
		{big, N(1), 1, true}, {N(1), big, -1, true}, {big, numeral("99999999999999999999.5"), -1, true},
		{numeral("-99999999999999999999"), big, -1, true}, {numeral("1e-3"), numeral("0.002"), -1, true},
		{S("a"), S("b"), -1, true}, {S("b"), S("a"), 1, true}, {S("a"), S("a"), 0, true},
		{B([]byte("a")), B([]byte("b")), -1, true}, {B([]byte("b")), B([]byte("a")), 1, true},
		{N(1), S("1"), 0, false}, {S("1"), N(1), 0, false}, {B([]byte("1")), S("1"), 0, false}, {N(1), numeral("x"),
			0, false},
		{numeral("x"), N(1), 0, false}, {Bool(true), Bool(true), 0, false}, {nil, N(1), 0, false},
	} {
		if order, ok := compare(c.a, c.b); order != c.order || ok != c.ok {
			t.Errorf("%#v and %#v: %d, %t, want %d, %t", c.a, c.b, order, ok, c.order, c.ok)
		}
	}
}

// Sums are exact, even beyond 64 bits.
func TestSumsAreExact(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"1", "2", "3"}, {"-1", "1", "0"}, {"0.1", "0.2", "0.3"}, {"9223372036854775807", "1", "9223372036854775808"},
		{"999999999999999999", "1", "1000000000000000000"}, {"-9223372036854775808", "-1", "-9223372036854775809"},
		{"99999999999999999999999999999999999999", "0.1", ""}, {"x", "1", ""}, {"1", "", ""}, {"9e125", "9e125", ""},
	} {
		got, ok := sum(numeral(c.a), numeral(c.b))
		if ok != (c.want != "") || ok && textOf(got) != c.want {
			t.Errorf("%s + %s is %#v, %t, want %s", c.a, c.b, got, ok, c.want)
		}
	}
	if got := textOf(Plus(numeral("18446744073709551616"), -1)); got != "18446744073709551615" {
		t.Errorf("2^64 - 1 is %s", got)
	}
}

// textOf formats a text, a number or a set of texts.
func textOf(v Value) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberSS:
		return strings.Join(v.Value, ",") + ","
	}
	return text(v)
}
