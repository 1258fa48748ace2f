package dbtest

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// testInvalid sends what DynamoDB does not take. The answer is unavailable:
// nothing was written, and sending it again is no use.
func (d Deviations) testInvalid(t *testing.T, db store.Store) {
	k := newKey()
	before := item(k, pairs("n", table.N(1), "s", table.S("x"), "set", table.SS("a"), "big", num("9.9e125"), "tall", num(tall))...)
	mustWrite(t, db, table.Put{Item: before})
	set := func(name string, v table.Value) table.Write { return table.Update{Key: k, Set: one(name, v)} }
	add := func(name string, v table.Value) table.Write { return table.Update{Key: k, Add: one(name, v)} }
	guarded := func(c table.Cond) table.Write { return table.Update{Key: k, Set: one("w", table.N(1)), If: c} }
	deep := table.Map(table.Item{})
	for range 33 {
		deep = table.Map(table.Item{"d": deep})
	}
	many := make([]table.Cond, 0, 700)
	for range 700 {
		many = append(many, table.Exists("n"))
	}
	for _, tt := range []struct {
		name string
		w    table.Write
	}{
		{"add a number to a string", add("s", table.N(1))},
		{"add a set to a number", add("n", table.SS("x"))},
		{"add a string", add("n", table.S("x"))},
		{"add out of range", add("big", num("9e125"))},
		{"add beyond 38 digits", add("tall", num("0.1"))},
		{"delete from a number", table.Update{Key: k, Del: one("n", table.SS("x"))}},
		{"delete a number", table.Update{Key: k, Del: one("n", table.N(1))}},
		{"39 digits", set("x", num(tall+"9"))},
		{"number too large", set("x", num("1e126"))},
		{"number too small", set("x", num("1e-131"))},
		{"no number", set("x", num("abc"))},
		{"hexadecimal", set("x", num("0x10"))},
		{"fraction", set("x", num("1/2"))},
		{"empty number", set("x", num(""))},
		{"empty set", set("x", &types.AttributeValueMemberSS{Value: []string{}})},
		{"set with an element twice", set("x", table.SS("a", "a"))},
		{"nested too deep", set("x", deep)},
		{"part of the key", set(table.AttrSK, table.S("x"))},
		{"remove part of the key", table.Update{Key: k, Remove: []string{table.AttrPK}}},
		{"one attribute in two actions", table.Update{Key: k, Set: one("n", table.N(1)), Add: one("n", table.N(1))}},
		{"one attribute twice in one action", table.Update{Key: k, Set: pairs("n", table.N(1), "n", table.N(2))}},
		{"index key that is no string", set(table.AttrGSI2PK, table.N(1))},
		{"index key that is empty", set(table.AttrGSI4SK, table.S(""))},
		{"put with an index key that is no string", table.Put{Item: item(newKey(), table.Attr{Name: table.AttrGSI1SK, Value: table.Bool(true)})}},
		{"put with an empty index key", table.Put{Item: item(newKey(), table.Attr{Name: table.AttrGSI3PK, Value: table.S("")})}},
		{"empty partition key", table.Update{Key: table.Key{SK: "x"}, Set: one("a", table.N(1))}},
		{"empty sort key", table.Put{Item: table.Key{PK: "x"}.Item()}},
		{"delete with an empty key", table.Delete{Key: table.Key{PK: "x"}}},
		{"partition key too long", table.Put{Item: table.Key{PK: strings.Repeat("x", 2049), SK: "x"}.Item()}},
		{"sort key too long", table.Put{Item: table.Key{PK: "x", SK: strings.Repeat("x", 1025)}.Item()}},
		{"put too large", table.Put{Item: item(newKey(), table.Attr{Name: "x", Value: table.S(strings.Repeat("x", 400<<10))})}},
		{"update too large", set("x", table.S(strings.Repeat("x", 400<<10)))},
		{"order of booleans", guarded(table.Compare("n", table.Lt, table.Bool(true)))},
		{"order of null", guarded(table.Compare("n", table.Ge, table.Null()))},
		{"order of sets", guarded(table.Compare("set", table.Gt, table.SS("a")))},
		{"bounds in the wrong order", guarded(table.Between("n", table.N(2), table.N(1)))},
		{"bounds of two types", guarded(table.Between("n", table.N(2), table.S("a")))},
		{"condition too long", guarded(table.All(many...))},
		{"check outside a transaction", table.Check{Key: k, If: yes}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := db.Write(t.Context(), tt.w)
			d.wantInvalid(t, tt.name, err)
			wantItem(t, "stored item", read(t, db, k), before)
		})
	}
	t.Run("invalid whatever the condition says", func(t *testing.T) {
		_, err := db.Write(t.Context(), table.Update{Key: k, Set: one("x", num("1e126")), If: no})
		wantKind(t, err, store.Unavailable)
	})
	t.Run("refused before types matter", func(t *testing.T) {
		_, err := db.Write(t.Context(), table.Update{Key: k, Add: one("s", table.N(1)), If: no})
		wantRefused(t, err, before)
	})
}
