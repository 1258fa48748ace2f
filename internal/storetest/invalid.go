package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// testInvalid sends writes that DynamoDB does not accept. The table or the SDK must reject each
// call: nothing is written, and a retry does not help.
func (d Deviations) testInvalid(t *testing.T, db store.Lister) {
	k := newKey()
	before := stored(k, pairs("n", item.N(1), "s", item.S("x"), "set", item.SS("a"), "big", num("9.9e125"), "tall",
		num(tall))...)
	mustWrite(t, db, item.Put{Item: before})
	mustWrite(t, db, full(0))
	for _, tt := range slices.Concat(invalidValues(k), invalidKeys(k), invalidConditions(k)) {
		t.Run(tt.name, func(t *testing.T) {
			_, err := db.Write(t.Context(), tt.w)
			if d.wantInvalid(t, tt.name, err) {
				mustWrite(t, db, item.Put{Item: before})
			}
			wantItem(t, "stored item", read(t, db, k), before)
		})
	}
	t.Run("invalid whatever the condition says", func(t *testing.T) {
		_, err := db.Write(t.Context(), item.Update{Key: k, Set: one("x", num("1e126")), If: no})
		wantRejected(t, err)
		wantItem(t, "stored item", read(t, db, k), before)
	})
	t.Run("refused before types matter", func(t *testing.T) {
		mustRefuse(t, db, item.Update{Key: k, Add: one("s", item.N(1)), If: no})
	})
}

// invalid is a write that DynamoDB rejects.
type invalid struct {
	name string
	w    item.Write
}

func setting(k item.Key, name string, v item.Value) item.Write {
	return item.Update{Key: k, Set: one(name, v)}
}

func guarded(k item.Key, c item.Cond) item.Write {
	return item.Update{Key: k, Set: one("w", item.N(1)), If: c}
}

// invalidValues have wrong values, or an action that does not fit the attribute of another.
func invalidValues(k item.Key) []invalid {
	set := func(name string, v item.Value) item.Write { return setting(k, name, v) }
	add := func(name string, v item.Value) item.Write { return item.Update{Key: k, Add: one(name, v)} }
	return []invalid{
		{"add a number to a string", add("s", item.N(1))},
		{"add a set to a number", add("n", item.SS("x"))},
		{"add a string", add("n", item.S("x"))},
		{"add out of range", add("big", num("9e125"))},
		{"add beyond 38 digits", add("tall", num("0.1"))},
		{"set less nothing", item.Update{Key: k, SetLess: less("x", item.N(1), "y")}},
		{"set less a string", item.Update{Key: k, SetLess: less("x", item.N(1), "s")}},
		{"set less part of the key", item.Update{Key: k, SetLess: less("x", item.N(1), item.AttrPK)}},
		{"set a string less a number", item.Update{Key: k, SetLess: less("x", item.S("a"), "n")}},
		{"set less out of range", item.Update{Key: k, SetLess: less("x", num("-9e125"), "big")}},
		{"set less beyond 38 digits", item.Update{Key: k, SetLess: less("x", num("0.1"), "tall")}},
		{"set and set less one attribute",
			item.Update{Key: k, Set: one("x", item.N(1)), SetLess: less("x", item.N(1), "n")}},
		{"delete from a number", item.Update{Key: k, Del: one("n", item.SS("x"))}},
		{"delete a number", item.Update{Key: k, Del: one("n", item.N(1))}},
		{"39 digits", set("x", num(tall+"9"))},
		{"number too large", set("x", num("1e126"))},
		{"number too small", set("x", num("1e-131"))},
		{"no number", set("x", num("abc"))},
		{"hexadecimal", set("x", num("0x10"))},
		{"fraction", set("x", num("1/2"))},
		{"empty number", set("x", num(""))},
		{"empty set", set("x", &types.AttributeValueMemberSS{Value: []string{}})},
		{"set with an element twice", set("x", item.SS("a", "a"))},
		{"maps nested too deep", set("x", nested(32, inMap))},
		{"lists nested too deep", set("x", nested(32, inList))},
		{"put nested too deep", item.Put{Item: stored(newKey(), one("x", nested(32, inMap))...)}},
		{"map with an empty name", set("x", inMap("", item.N(1)))},
		{"map with an empty name in a list", set("x", inList("", inMap("", item.N(1))))},
		{"put of a map with an empty name", item.Put{Item: stored(newKey(), one("x", inMap("", item.N(1)))...)}},
		{"condition on a map with an empty name",
			guarded(k, item.Any(yes, item.Compare("x", item.Eq, inMap("", item.N(1)))))},
	}
}

// invalidKeys have wrong keys, of the table or of an index, or are too large.
func invalidKeys(k item.Key) []invalid {
	set := func(name string, v item.Value) item.Write { return setting(k, name, v) }
	long := func(n int) item.Value { return item.S(strings.Repeat("x", n)) }
	return []invalid{
		{"part of the key", set(item.AttrSK, item.S("x"))},
		{"remove part of the key", item.Update{Key: k, Remove: []string{item.AttrPK}}},
		{"one attribute in two actions", item.Update{Key: k, Set: one("n", item.N(1)), Add: one("n", item.N(1))}},
		{"one attribute twice in one action", item.Update{Key: k, Set: pairs("n", item.N(1), "n", item.N(2))}},
		{"index key that is no string", set(item.AttrGSI2PK, item.N(1))},
		{"index key that is empty", set(item.AttrGSI4SK, item.S(""))},
		{"index partition key too long", set(item.AttrGSI2PK, long(2049))},
		{"index sort key too long", set(item.AttrGSI4SK, long(1025))},
		{"put with an index partition key too long",
			item.Put{Item: stored(newKey(), one(item.AttrGSI1PK, long(2049))...)}},
		{"put with an index sort key too long", item.Put{Item: stored(newKey(), one(item.AttrGSI3SK, long(1025))...)}},
		{"put with an index key that is no string",
			item.Put{Item: stored(newKey(), item.Attr{Name: item.AttrGSI1SK, Value: item.Bool(true)})}},
		{"put with an empty index key",
			item.Put{Item: stored(newKey(), item.Attr{Name: item.AttrGSI3PK, Value: item.S("")})}},
		{"empty partition key", item.Update{Key: item.Key{SK: "x"}, Set: one("a", item.N(1))}},
		{"empty sort key", item.Put{Item: item.Key{PK: "x"}.Item()}},
		{"delete with an empty key", item.Delete{Key: item.Key{PK: "x"}}},
		{"partition key too long", item.Put{Item: item.Key{PK: strings.Repeat("x", 2049), SK: "x"}.Item()}},
		{"sort key too long", item.Put{Item: item.Key{PK: "x", SK: strings.Repeat("x", 1025)}.Item()}},
		{"put too large", item.Put{Item: stored(newKey(),
			item.Attr{Name: "x", Value: item.S(strings.Repeat("x", 400<<10))})}},
		{"put a byte too large", full(1)},
		{"update too large", set("x", item.S(strings.Repeat("x", 400<<10)))},
	}
}

// full returns the put of an item of the greatest size, and over bytes more.
func full(over int) item.Put {
	it := stored(newKey(), pairs("n", num("120"), "x", item.S(""))...)
	it["x"] = item.S(strings.Repeat("x", item.MaxItemSize-item.Size(it)+over))
	return item.Put{Item: it}
}

// invalidConditions have wrong conditions.
func invalidConditions(k item.Key) []invalid {
	many := make([]item.Cond, 0, 700)
	for range 700 {
		many = append(many, item.Exists("n"))
	}
	return []invalid{
		{"order of booleans", guarded(k, item.Compare("n", item.Lt, item.Bool(true)))},
		{"order of null", guarded(k, item.Compare("n", item.Ge, item.Null()))},
		{"order of sets", guarded(k, item.Compare("set", item.Gt, item.SS("a")))},
		{"bounds in the wrong order", guarded(k, item.Between("n", item.N(2), item.N(1)))},
		{"bounds of two types", guarded(k, item.Between("n", item.N(2), item.S("a")))},
		{"condition too long", guarded(k, item.All(many...))},
		{"check outside a transaction", item.Check{Key: k, If: yes}},
	}
}

// nested returns a number nested in levels containers.
func nested(levels int, in func(string, item.Value) item.Value) item.Value {
	v := item.N(1)
	for range levels {
		v = in("d", v)
	}
	return v
}

func inMap(name string, v item.Value) item.Value { return item.Map(item.Item{name: v}) }

func inList(_ string, v item.Value) item.Value {
	return &types.AttributeValueMemberL{Value: []item.Value{v}}
}
