package storetest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

type attrs = []item.Attr

// step is a write on an item with the attributes before, or on a missing item if before is nil. The
// suite gives both a key, and the write must end as in memory.
type step struct {
	name   string
	before attrs
	write  item.Write
}

func (s step) run(t *testing.T, db store.Store) {
	t.Helper()
	k := newKey()
	if s.before != nil {
		mustWrite(t, db, item.Put{Item: stored(k, s.before...)})
	}
	w := at(k, s.write)
	check.MustEqual(t, w.Target(), k, "the item written")
	try(t, db, w)
}

// at returns a write of the item at k.
func at(k item.Key, w item.Write) item.Write {
	switch w := w.(type) {
	case item.Update:
		w.Key = k
		return w
	case item.Delete:
		w.Key = k
		return w
	}
	put := w.(item.Put)
	put.Item = maps.Clone(put.Item)
	maps.Copy(put.Item, k.Item())
	return put
}

const tall = "99999999999999999999999999999999999999" // 38 digits

var (
	yes = item.Exists(item.AttrPK)
	no  = item.Absent(item.AttrPK)
)

// hostileNames are attribute names that an expression cannot contain without an alias.
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

func less(name string, v item.Value, minus string) []item.Less {
	return []item.Less{{Name: name, Value: v, Minus: minus}}
}

func testWrites(t *testing.T, db store.Lister) {
	for _, s := range slices.Concat(replacing(), settingSteps(), settingLess(), counting()) {
		t.Run(s.name, func(t *testing.T) { s.run(t, db) })
	}
	t.Run("hostile names", func(t *testing.T) { testHostileNames(t, db) })
	t.Run("a large item", func(t *testing.T) {
		long := item.S(strings.Repeat("x", 100<<10))
		step{before: one("a", long), write: item.Update{Set: one("b", long), If: yes}}.run(t, db)
	})
}

// replacing returns puts and deletes.
func replacing() []step {
	n := item.N
	put := func(a attrs, c item.Cond) item.Write { return item.Put{Item: stored(item.Key{}, a...), If: c} }
	remove := func(c item.Cond) item.Write { return item.Delete{If: c} }
	return []step{
		{"put creates", nil, put(one("a", n(1)), nil)},
		{"put replaces the whole item", one("a", n(1)), put(one("b", n(2)), nil)},
		{"put if absent creates", nil, put(one("a", n(1)), no)},
		{"put if absent is refused", one("a", n(1)), put(one("a", n(2)), no)},
		{"put if present is refused without an image", nil, put(one("a", n(2)), yes)},

		{"delete removes", one("a", n(1)), remove(nil)},
		{"delete of nothing", nil, remove(nil)},
		{"delete if", one("a", n(1)), remove(item.Compare("a", item.Eq, n(1)))},
		{"delete if is refused", one("a", n(1)), remove(item.Compare("a", item.Eq, n(2)))},
		{"delete of nothing is refused", nil, remove(yes)},
		{"put lists in one another", nil, put(one("a", nested(31, inList)), nil)},
	}
}

// settingSteps returns updates that set.
func settingSteps() []step {
	n := item.N
	record := item.Map(item.Item{"rf": n(1), "r": item.Map(item.Item{"rpm": n(2), "in.tok": n(-3)}),
		"e": item.Map(item.Item{})})
	return []step{
		{"update creates", nil, item.Update{Set: one("a", n(1))}},
		{"update without action creates", nil, item.Update{}},
		{"update without action keeps", one("a", n(1)), item.Update{If: yes}},
		{"update without action is refused without an image", nil, item.Update{If: yes}},
		{"set replaces a value of another type", one("a", n(1)), item.Update{Set: one("a", item.S(""))}},
		{"set keeps the rest", pairs("a", n(1), "b", record), item.Update{Set: one("a", item.Bool(false))}},
		{"set nested maps", nil, item.Update{Set: one("rr", record)}},
		{"set as many maps and lists in one another as there may be", nil,
			item.Update{Set: one("a", nested(31, inMap)), Add: one("b", n(1))}},
		{"set the longest index keys", nil,
			item.Update{Set: pairs(item.AttrGSI2PK, item.S(strings.Repeat("x", 2048)), item.AttrGSI2SK,
				item.S(strings.Repeat("x", 1024)))}},
		{"set null", nil, item.Update{Set: one("a", item.Null())}},
		{"set an empty list and map", nil,
			item.Update{Set: pairs("l", &types.AttributeValueMemberL{Value: []item.Value{}}, "m",
				item.Map(item.Item{}))}},
		{"set if absent sets", one("b", n(1)), item.Update{SetIfAbsent: one("a", n(2))}},
		{"set if absent keeps", one("a", n(1)), item.Update{SetIfAbsent: one("a", n(2))}},
		{"set if absent keeps null", one("a", item.Null()), item.Update{SetIfAbsent: one("a", n(2))}},
	}
}

// settingLess returns updates that set an attribute to a number minus another attribute.
func settingLess() []step {
	n := item.N
	return []step{
		{"set less", one("b", n(3)), item.Update{SetLess: less("a", n(10), "b")}},
		{"set less than itself", one("b", n(3)), item.Update{SetLess: less("b", n(10), "b")}},
		{"set less what is negative", pairs("a", item.S("x"), "b", n(-3)),
			item.Update{SetLess: less("a", n(-10), "b")}},
		{"set less beyond 64 bits", one("b", num("-9223372036854775807")),
			item.Update{SetLess: less("a", num("9223372036854775807"), "b")}},
		{"set less 38 digits", one("b", num(tall)), item.Update{SetLess: less("a", num(tall), "b")}},
		{"set less fractions", one("b", num("-0.1")), item.Update{SetLess: less("a", num("0.2"), "b")}},
		{"set less what is changed too", pairs("b", n(3), "c", n(5), "d", n(7)),
			item.Update{SetLess: []item.Less{{Name: "a", Value: n(10), Minus: "b"},
				{Name: "b2", Value: n(0), Minus: "c"}, {Name: "d2", Value: n(1), Minus: "d"}},
				Add: one("b", n(100)), Set: one("c", n(0)), Remove: []string{"d"}}},
		{"set less is refused before it matters", one("s", item.S("x")),
			item.Update{SetLess: less("a", n(10), "s"), If: no}},
	}
}

// counting returns updates that remove, add, and delete from sets.
func counting() []step {
	n := item.N
	return []step{
		{"remove", pairs("a", n(1), "b", n(2)), item.Update{Remove: []string{"a"}}},
		{"remove of nothing", one("b", n(2)), item.Update{Remove: []string{"a"}}},
		{"all actions at once", pairs("a", n(1), "d", item.SS("x", "y"), "r", n(0)),
			item.Update{Set: one("s", n(9)), SetIfAbsent: one("i", n(8)), Add: one("a", n(-3)),
				Del: one("d", item.SS("x")), Remove: []string{"r"}, If: yes}},

		{"add to a number", one("a", n(5)), item.Update{Add: one("a", n(-8))}},
		{"add to nothing", one("b", n(1)), item.Update{Add: one("a", n(-8))}},
		{"add creates the item", nil, item.Update{Add: one("a", n(0))}},
		{"add beyond 64 bits", one("a", num("9223372036854775807")),
			item.Update{Add: one("a", num("9223372036854775807"))}},
		{"add to 38 digits", one("a", num(tall)), item.Update{Add: one("a", num("-"+tall))}},
		{"add fractions", one("a", num("0.1")), item.Update{Add: one("a", num("0.2"))}},
		{"numbers are values, not texts", one("a", num("1.50")), item.Update{Add: one("a", num("1e1"))}},

		{"add to a set", one("a", item.SS("x", "y")), item.Update{Add: one("a", item.SS("y", "z"))}},
		{"add a set to nothing", nil, item.Update{Add: one("a", item.SS("y"))}},
		{"delete from a set", one("a", item.SS("x", "y")), item.Update{Del: one("a", item.SS("y", "z"))}},
		{"delete the last of a set", one("a", item.SS("x")), item.Update{Del: one("a", item.SS("x"))}},
		{"delete from no set", one("b", n(1)), item.Update{Del: one("a", item.SS("x"))}},
	}
}

// testHostileNames uses every hostile name in every position of one update.
func testHostileNames(t *testing.T, db store.Store) {
	var before, set, added attrs
	var conds []item.Cond
	for i, name := range hostileNames {
		before = append(before, item.Attr{Name: name, Value: item.N(int64(i))})
		set = append(set, item.Attr{Name: name + "s", Value: item.N(int64(i))})
		added = append(added, item.Attr{Name: name, Value: item.N(100)})
		conds = append(conds, item.Exists(name), item.Absent(name+"s"), item.Between(name, item.N(0), item.N(99)))
	}
	k := newKey()
	u := item.Update{Key: k, Set: set, Add: added, If: item.All(conds...)}
	mustWrite(t, db, item.Put{Item: stored(k, before...)})
	mustWrite(t, db, u)
	mustRefuse(t, db, u)
}
