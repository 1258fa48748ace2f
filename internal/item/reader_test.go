package item

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A list of strings must have only strings. An empty or missing list has none.
func TestListsOfStringsHaveOnlyStrings(t *testing.T) {
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

// A reader reads a missing or null attribute as nothing, and an empty map as none. Its first error
// says what the attribute must be, and names the record.
func TestReaderKeepsTheFirstError(t *testing.T) {
	r := Reader{It: Item{"PK": S("p"), "SK": S("s"), "text": S("x"), "flag": Bool(true), "map": Map(Item{}),
		"null": Null()}}
	if r.Str("text") != "x" || !r.Flag("flag") || r.Entries("map") != nil || r.Str("null")+r.Str("absent") != "" {
		t.Errorf("reads %+v", r)
	}
	got, err := Decoded(&r, "kind", 7)
	check.Equal(t, got, 7)
	check.NoError(t, err, "of nothing odd")
	for want, read := range map[string]func(){
		"want a map": func() { r.Entries("text") }, "want a boolean": func() { r.Flag("map") },
		"want a string": func() { r.Str("flag") }} {
		r.Err = nil
		read()
		r.Fail("another")
		got, err = Decoded(&r, "kind", 7)
		check.Equal(t, got, 0, want)
		check.Says(t, err, want, want)
		check.Says(t, err, `kind item "p" "s": attribute`, want)
	}
}
