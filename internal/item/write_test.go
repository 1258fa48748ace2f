package item

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func numeral(s string) Value { return &types.AttributeValueMemberN{Value: s} }

// Each action changes an item as in DynamoDB, or is refused as there. The old item is not modified.
func TestUpdateActionsMatchDynamoDB(t *testing.T) {
	key := Key{"p", "s"}
	old := Item{"PK": S("p"), "SK": S("s"), "n": N(7), "neg": N(-3), "s": S("x"), "set": SS("a", "b"),
		"big": numeral("99999999999999999999999999999999999999")}
	with := func(change Item, gone ...string) Item {
		out := Item{}
		for name, v := range old {
			out[name] = v
		}
		for name, v := range change {
			out[name] = v
		}
		for _, name := range gone {
			delete(out, name)
		}
		return out
	}
	most := strings.Repeat("x", MaxItemSize-Size(old)-len("new"))
	for _, c := range []struct {
		name  string
		u     Update
		want  Item   // afterwards
		wrong string // part of the error; empty: none
	}{
		{"set", Update{Set: []Attr{{"n", N(8)}, {"new", S("y")}}}, with(Item{"n": N(8), "new": S("y")}), ""},
		{"set if absent", Update{SetIfAbsent: []Attr{{"n", N(8)}, {"new", N(9)}}}, with(Item{"new": N(9)}), ""},
		{"add", Update{Add: []Attr{{"n", N(-9)}, {"new", N(2)}}}, with(Item{"n": N(-2), "new": N(2)}), ""},
		{"add to 38 digits", Update{Add: []Attr{{"big", N(1)}}},
			with(Item{"big": numeral("1" + strings.Repeat("0", 38))}), ""},
		{"too many digits", Update{Add: []Attr{{"big", numeral("0.1")}}}, nil, `attribute "big" is no number, or the sum`},
		{"add to text", Update{Add: []Attr{{"s", N(1)}}}, nil, `attribute "s" is no number, or the sum`},
		{"add to a set", Update{Add: []Attr{{"set", SS("c", "a")}, {"new", SS("z", "y")}}},
			with(Item{"set": SS("a", "b", "c"), "new": SS("y", "z")}), ""},
		{"add a set to text", Update{Add: []Attr{{"s", SS("c")}}}, nil, `attribute "s" is no string set, ADD needs one`},
		{"less", Update{SetLess: []Less{{"new", N(10), "n"}, {"two", N(10), "neg"}}}, with(Item{"new": N(3),
			"two": N(13)}), ""},
		{"minus the earlier value", Update{SetLess: []Less{{"new", N(10), "n"}}, Add: []Attr{{"n", N(5)}}},
			with(Item{"new": N(3), "n": N(12)}), ""},
		{"minus a value set in the same update", Update{SetLess: []Less{{"new", N(10), "n"}}, Set: []Attr{{"n", N(8)}}},
			with(Item{"new": N(3), "n": N(8)}), ""},
		{"minus a value removed in the same update", Update{SetLess: []Less{{"new", N(10), "n"}}, Remove: []string{"n"}},
			with(Item{"new": N(3)}, "n"), ""},
		{"less than itself", Update{SetLess: []Less{{"n", N(10), "n"}}}, with(Item{"n": N(3)}), ""},
		{"minus a missing value", Update{SetLess: []Less{{"new", N(10), "none"}}}, nil,
			`attribute "none", to subtract, is no number of the item`},
		{"minus a text", Update{SetLess: []Less{{"new", N(10), "s"}}}, nil,
			`attribute "s", to subtract, is no number of the item`},
		{"minus more digits than allowed", Update{SetLess: []Less{{"new", numeral("0.5"), "big"}}}, nil,
			`attribute "new": the difference is none that can be stored`},
		{"take from a set", Update{Del: []Attr{{"set", SS("a", "z")}}}, with(Item{"set": SS("b")}), ""},
		{"take all of a set", Update{Del: []Attr{{"set", SS("a", "b")}}}, with(nil, "set"), ""},
		{"take from no set", Update{Del: []Attr{{"none", SS("a")}}}, with(nil), ""},
		{"take from text", Update{Del: []Attr{{"s", SS("a")}}}, nil, `attribute "s" is no string set, DELETE needs one`},
		{"remove", Update{Remove: []string{"n", "none"}}, with(nil, "n"), ""},
		{"an invalid update", Update{Set: []Attr{{"PK", S("x")}}}, nil, "part of the key"},
		{"as large as allowed", Update{Set: []Attr{{"new", S(most)}}}, with(Item{"new": S(most)}), ""},
		{"one byte more", Update{Set: []Attr{{"new", S(most + "x")}}}, nil, "item of 409601 bytes after the update"},
		{"too large", Update{Set: []Attr{{"new", S(strings.Repeat("x", MaxItemSize))}}}, nil,
			"after the update, at most 409600 are accepted"},
	} {
		c.u.Key = key
		before := with(nil)
		after, held, err := c.u.Apply(before)
		if !EqualItems(before, old) {
			t.Fatalf("%s: the item before is %v now", c.name, before)
		}
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || held || !EqualItems(after, old) {
				t.Errorf("%s: %v, %t, error %v, want %s", c.name, after, held, err, c.wrong)
			}
			continue
		}
		if err != nil || !held || !EqualItems(after, c.want) {
			t.Errorf("%s: %v, %t, error %v, want %v", c.name, after, held, err, c.want)
		}
	}
}

// A write without an old item creates one or none. If its condition fails, nothing changes.
func TestWritesCreateMissingItemsOrFail(t *testing.T) {
	key, it := Key{"p", "s"}, Item{"PK": S("p"), "SK": S("s"), "a": N(1)}
	never, invalid := Exists("none"), Key{"p", ""}
	for _, c := range []struct {
		name         string
		w            Write
		before, want Item
		held, wrong  bool
	}{
		{"an update makes one", Update{Key: key, Add: []Attr{{"a", N(1)}}}, nil, it, true, false},
		{"an update that is refused", Update{Key: key, Add: []Attr{{"a", N(1)}}, If: never}, nil, nil, false, false},
		{"a put", Put{Item: it}, nil, it, true, false},
		{"a put instead", Put{Item: it}, Item{"PK": S("p"), "SK": S("s"), "b": N(1)}, it, true, false},
		{"a put that is refused", Put{Item: it, If: never}, nil, nil, false, false},
		{"a put of nothing", Put{}, it, it, false, true},
		{"a delete", Delete{Key: key}, it, nil, true, false},
		{"a delete of nothing", Delete{Key: key}, nil, nil, true, false},
		{"a delete that is refused", Delete{Key: key, If: never}, it, it, false, false},
		{"a delete without a key", Delete{Key: invalid}, it, it, false, true},
		{"a check", Check{Key: key, If: Exists("a")}, it, it, true, false},
		{"a check that fails", Check{Key: key, If: never}, it, it, false, false},
		{"a check of nothing", Check{Key: key}, it, it, false, true},
	} {
		after, held, err := c.w.Apply(c.before)
		if !EqualItems(after, c.want) || (after == nil) != (c.want == nil) || held != c.held || (err != nil) != c.wrong {
			t.Errorf("%s: %v, %t, error %v", c.name, after, held, err)
		}
		if want := key; !c.wrong && c.w.Target() != want {
			t.Errorf("%s: of %v, want %v", c.name, c.w.Target(), want)
		}
	}
	put, _, _ := Put{Item: it}.Apply(nil)
	if put["b"] = N(2); it["b"] != nil {
		t.Error("the stored item shares memory with the given one")
	}
}
