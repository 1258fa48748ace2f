package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

type attrs = []item.Attr

// step is one write on an item that is there with the attributes before, or not
// there if before is nil.
type step struct {
	name    string
	before  attrs
	write   func(k item.Key) item.Write
	after   attrs // nil: there is no item
	refused bool  // then nothing changes and the image is before
}

func (s step) run(t *testing.T, db store.Store) {
	t.Helper()
	k := newKey()
	var before, after item.Item
	if s.before != nil {
		before = stored(k, s.before...)
		mustWrite(t, db, item.Put{Item: before})
	}
	if s.after != nil {
		after = stored(k, s.after...)
	}
	got, err := db.Write(t.Context(), s.write(k))
	if s.refused {
		wantRefused(t, err, before)
		after = before
	} else if err != nil {
		t.Fatalf("error: %v", err)
	} else {
		wantItem(t, "returned item", got, after)
	}
	wantItem(t, "stored item", read(t, db, k), after)
}

const tall = "99999999999999999999999999999999999999" // 38 digits

var (
	yes = item.Exists(item.AttrPK)
	no  = item.Absent(item.AttrPK)
)

// hostileNames are attribute names that expressions could not hold without an alias.
var hostileNames = []string{
	"b_a-b_tk", "b_in.tok_tk", "size", "SELECT", "name", "status", "#a", ":b", "a b", "a#b/c[0]", "ünï", `"q"`, "b_😀_tk",
	"_", "0",
}

func one(name string, v item.Value) attrs { return attrs{{Name: name, Value: v}} }

// pairs returns attributes from names and values in turn.
func pairs(list ...any) attrs {
	out := make(attrs, 0, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		out = append(out, item.Attr{Name: list[i].(string), Value: list[i+1].(item.Value)})
	}
	return out
}

func update(u item.Update) func(item.Key) item.Write {
	return func(k item.Key) item.Write { u.Key = k; return u }
}

func testWrites(t *testing.T, db store.Store) {
	for _, s := range slices.Concat(replacing(), settingSteps(), settingLess(), counting()) {
		t.Run(s.name, func(t *testing.T) { s.run(t, db) })
	}
	t.Run("hostile names", func(t *testing.T) { testHostileNames(t, db) })
	t.Run("a large item", func(t *testing.T) {
		long := item.S(strings.Repeat("x", 100<<10))
		step{before: one("a", long), write: update(item.Update{Set: one("b", long), If: yes}),
			after: pairs("a", long, "b", long)}.run(t, db)
	})
}

// replacing are puts and deletes.
func replacing() []step {
	n := item.N
	put := func(a attrs, c item.Cond) func(item.Key) item.Write {
		return func(k item.Key) item.Write { return item.Put{Item: stored(k, a...), If: c} }
	}
	remove := func(c item.Cond) func(item.Key) item.Write {
		return func(k item.Key) item.Write { return item.Delete{Key: k, If: c} }
	}
	return []step{
		{name: "put creates", write: put(one("a", n(1)), nil), after: one("a", n(1))},
		{name: "put replaces the whole item", before: one("a", n(1)), write: put(one("b", n(2)), nil),
			after: one("b", n(2))},
		{name: "put if absent creates", write: put(one("a", n(1)), no), after: one("a", n(1))},
		{name: "put if absent is refused", before: one("a", n(1)), write: put(one("a", n(2)), no), refused: true},
		{name: "put if present is refused without an image", write: put(one("a", n(2)), yes), refused: true},

		{name: "delete removes", before: one("a", n(1)), write: remove(nil)},
		{name: "delete of nothing", write: remove(nil)},
		{name: "delete if", before: one("a", n(1)), write: remove(item.Compare("a", item.Eq, n(1)))},
		{name: "delete if is refused", before: one("a", n(1)), write: remove(item.Compare("a", item.Eq, n(2))),
			refused: true},
		{name: "delete of nothing is refused", write: remove(yes), refused: true},
		{name: "put lists in one another", write: put(one("a", nested(31, inList)), nil),
			after: one("a", nested(31, inList))},
	}
}

// settingSteps are updates that set.
func settingSteps() []step {
	n := item.N
	record := item.Map(item.Item{"rf": n(1), "r": item.Map(item.Item{"rpm": n(2), "in.tok": n(-3)}),
		"e": item.Map(item.Item{})})
	return []step{
		{name: "update creates", write: update(item.Update{Set: one("a", n(1))}), after: one("a", n(1))},
		{name: "update without action creates", write: update(item.Update{}), after: attrs{}},
		{name: "update without action keeps", before: one("a", n(1)), write: update(item.Update{If: yes}),
			after: one("a", n(1))},
		{name: "update without action is refused without an image", write: update(item.Update{If: yes}), refused: true},
		{name: "set replaces a value of another type", before: one("a", n(1)),
			write: update(item.Update{Set: one("a", item.S(""))}), after: one("a", item.S(""))},
		{name: "set keeps the rest", before: pairs("a", n(1), "b", record),
			write: update(item.Update{Set: one("a", item.Bool(false))}), after: pairs("a", item.Bool(false), "b", record)},
		{name: "set nested maps", write: update(item.Update{Set: one("rr", record)}), after: one("rr", record)},
		{name: "set as many maps and lists in one another as there may be",
			write: update(item.Update{Set: one("a", nested(31, inMap)), Add: one("b", n(1))}),
			after: pairs("a", nested(31, inMap), "b", n(1))},
		{name: "set the longest index keys",
			write: update(item.Update{Set: pairs(item.AttrGSI2PK, item.S(strings.Repeat("x", 2048)), item.AttrGSI2SK,
				item.S(strings.Repeat("x", 1024)))}),
			after: pairs(item.AttrGSI2PK, item.S(strings.Repeat("x", 2048)), item.AttrGSI2SK,
				item.S(strings.Repeat("x", 1024)))},
		{name: "set null", write: update(item.Update{Set: one("a", item.Null())}), after: one("a", item.Null())},
		{name: "set an empty list and map",
			write: update(item.Update{Set: pairs("l", &types.AttributeValueMemberL{Value: []item.Value{}}, "m",
				item.Map(item.Item{}))}),
			after: pairs("l", &types.AttributeValueMemberL{}, "m", item.Map(nil))},
		{name: "set if absent sets", before: one("b", n(1)), write: update(item.Update{SetIfAbsent: one("a", n(2))}),
			after: pairs("a", n(2), "b", n(1))},
		{name: "set if absent keeps", before: one("a", n(1)), write: update(item.Update{SetIfAbsent: one("a", n(2))}),
			after: one("a", n(1))},
		{name: "set if absent keeps null", before: one("a", item.Null()),
			write: update(item.Update{SetIfAbsent: one("a", n(2))}), after: one("a", item.Null())},
	}
}

// settingLess are updates that set the difference of a number and an attribute.
func settingLess() []step {
	n := item.N
	return []step{
		{name: "set less", before: one("b", n(3)),
			write: update(item.Update{SetLess: []item.Less{{Name: "a", Value: n(10), Minus: "b"}}}),
			after: pairs("a", n(7), "b", n(3))},
		{name: "set less than itself", before: one("b", n(3)),
			write: update(item.Update{SetLess: []item.Less{{Name: "b", Value: n(10), Minus: "b"}}}), after: one("b", n(7))},
		{name: "set less what is negative", before: pairs("a", item.S("x"), "b", n(-3)),
			write: update(item.Update{SetLess: []item.Less{{Name: "a", Value: n(-10), Minus: "b"}}}),
			after: pairs("a", n(-7), "b", n(-3))},
		{name: "set less beyond 64 bits", before: one("b", num("-9223372036854775807")),
			write: update(item.Update{SetLess: []item.Less{{Name: "a", Value: num("9223372036854775807"), Minus: "b"}}}),
			after: pairs("a", num("18446744073709551614"), "b", num("-9223372036854775807"))},
		{name: "set less 38 digits", before: one("b", num(tall)),
			write: update(item.Update{SetLess: []item.Less{{Name: "a", Value: num(tall), Minus: "b"}}}),
			after: pairs("a", n(0), "b", num(tall))},
		{name: "set less fractions", before: one("b", num("-0.1")),
			write: update(item.Update{SetLess: []item.Less{{Name: "a", Value: num("0.2"), Minus: "b"}}}),
			after: pairs("a", num("0.3"), "b", num("-0.1"))},
		{name: "set less what is changed too", before: pairs("b", n(3), "c", n(5), "d", n(7)),
			write: update(item.Update{SetLess: []item.Less{{Name: "a", Value: n(10), Minus: "b"},
				{Name: "b2", Value: n(0), Minus: "c"}, {Name: "d2", Value: n(1), Minus: "d"}},
				Add: one("b", n(100)), Set: one("c", n(0)), Remove: []string{"d"}}),
			after: pairs("a", n(7), "b", n(103), "b2", n(-5), "c", n(0), "d2", n(-6))},
		{name: "set less is refused before it matters", before: one("s", item.S("x")),
			write: update(item.Update{SetLess: []item.Less{{Name: "a", Value: n(10), Minus: "s"}}, If: no}), refused: true},
	}
}

// counting are updates that remove, add, and take from sets.
func counting() []step {
	n := item.N
	return []step{
		{name: "remove", before: pairs("a", n(1), "b", n(2)), write: update(item.Update{Remove: []string{"a"}}),
			after: one("b", n(2))},
		{name: "remove of nothing", before: one("b", n(2)), write: update(item.Update{Remove: []string{"a"}}),
			after: one("b", n(2))},
		{name: "all actions at once", before: pairs("a", n(1), "d", item.SS("x", "y"), "r", n(0)),
			write: update(item.Update{Set: one("s", n(9)), SetIfAbsent: one("i", n(8)), Add: one("a", n(-3)),
				Del: one("d", item.SS("x")), Remove: []string{"r"}, If: yes}),
			after: pairs("a", n(-2), "d", item.SS("y"), "s", n(9), "i", n(8))},

		{name: "add to a number", before: one("a", n(5)), write: update(item.Update{Add: one("a", n(-8))}),
			after: one("a", n(-3))},
		{name: "add to nothing", before: one("b", n(1)), write: update(item.Update{Add: one("a", n(-8))}),
			after: pairs("a", n(-8), "b", n(1))},
		{name: "add creates the item", write: update(item.Update{Add: one("a", n(0))}), after: one("a", n(0))},
		{name: "add beyond 64 bits", before: one("a", num("9223372036854775807")),
			write: update(item.Update{Add: one("a", num("9223372036854775807"))}),
			after: one("a", num("18446744073709551614"))},
		{name: "add to 38 digits", before: one("a", num(tall)), write: update(item.Update{Add: one("a", num("-"+tall))}),
			after: one("a", n(0))},
		{name: "add fractions", before: one("a", num("0.1")), write: update(item.Update{Add: one("a", num("0.2"))}),
			after: one("a", num("0.3"))},
		{name: "numbers are values, not texts", before: one("a", num("1.50")),
			write: update(item.Update{Add: one("a", num("1e1"))}), after: one("a", num("11.5"))},

		{name: "add to a set", before: one("a", item.SS("x", "y")),
			write: update(item.Update{Add: one("a", item.SS("y", "z"))}), after: one("a", item.SS("x", "y", "z"))},
		{name: "add a set to nothing", write: update(item.Update{Add: one("a", item.SS("y"))}),
			after: one("a", item.SS("y"))},
		{name: "delete from a set", before: one("a", item.SS("x", "y")),
			write: update(item.Update{Del: one("a", item.SS("y", "z"))}), after: one("a", item.SS("x"))},
		{name: "delete the last of a set", before: one("a", item.SS("x")),
			write: update(item.Update{Del: one("a", item.SS("x"))}), after: attrs{}},
		{name: "delete from no set", before: one("b", n(1)), write: update(item.Update{Del: one("a", item.SS("x"))}),
			after: one("b", n(1))},
	}
}

// testHostileNames uses every hostile name in every place of one update.
func testHostileNames(t *testing.T, db store.Store) {
	var before, set, added attrs
	var conds []item.Cond
	for i, name := range hostileNames {
		before = append(before, item.Attr{Name: name, Value: item.N(int64(i))})
		set = append(set, item.Attr{Name: name + "s", Value: item.N(int64(i))})
		added = append(added, item.Attr{Name: name, Value: item.N(100)})
		conds = append(conds, item.Exists(name), item.Absent(name+"s"), item.Between(name, item.N(0), item.N(99)))
	}
	after := append(attrs{}, set...)
	for i, name := range hostileNames {
		after = append(after, item.Attr{Name: name, Value: item.N(int64(100 + i))})
	}
	u := item.Update{Set: set, Add: added, If: item.All(conds...)}
	step{before: before, write: update(u), after: after}.run(t, db)
	step{before: after, write: update(u), refused: true}.run(t, db)
}
