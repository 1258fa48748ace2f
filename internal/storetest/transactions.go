package storetest

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

func add(k item.Key, n int64, c item.Cond) item.Update {
	return item.Update{Key: k, Add: one("n", item.N(n)), If: c}
}

func testTransactions(t *testing.T, db store.Lister) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"every write", testAllWrites},
		{"one refusal stops all", testOneRefusal},
		{"every refusal is told", testEveryRefusal},
		{"a token works once", testToken},
		{"a refused token works again", testRefusedToken},
		{"a token with other writes", testOtherWrites},
		{"a hundred writes", testHundred},
		{"four megabytes", testLarge},
		{"types that do not fit", testTypeInTransaction},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, db) })
	}
}

func testAllWrites(t *testing.T, db store.Store) {
	updated, created, replaced, removed, checked := newKey(), newKey(), newKey(), newKey(), newKey()
	for _, k := range []item.Key{updated, replaced, removed, checked} {
		mustWrite(t, db, item.Put{Item: stored(k, one("n", item.N(1))...)})
	}
	mustTransact(t, db, newToken(), []item.Write{
		add(updated, 2, item.Compare("n", item.Eq, item.N(1))),
		item.Put{Item: stored(created, one("a-b", item.S("x"))...), If: no},
		item.Put{Item: stored(replaced, one("c", item.S("y"))...)},
		item.Delete{Key: removed, If: yes},
		item.Check{Key: checked, If: item.Between("n", item.N(0), item.N(1))},
	})
}

func testOneRefusal(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	mustWrite(t, db, item.Put{Item: stored(a, one("n", item.N(1))...)})
	for name, w := range map[string]item.Write{
		"update": add(a, 1, item.Compare("n", item.Gt, item.N(1))),
		"put":    item.Put{Item: a.Item(), If: no},
		"delete": item.Delete{Key: a, If: item.Absent("n")},
		"check":  item.Check{Key: a, If: item.Exists("x")},
	} {
		t.Run(name, func(t *testing.T) {
			mustCancel(t, db, newToken(), []item.Write{add(b, 1, nil), w})
			mustCancel(t, db, newToken(), []item.Write{w, add(b, 1, nil)})
		})
	}
}

func testEveryRefusal(t *testing.T, db store.Store) {
	a, b, c := newKey(), newKey(), newKey()
	for _, k := range []item.Key{a, c} {
		mustWrite(t, db, item.Put{Item: k.Item()})
	}
	mustCancel(t, db, newToken(), []item.Write{
		item.Put{Item: a.Item(), If: no},
		item.Check{Key: b, If: yes},
		add(c, 1, yes),
		item.Delete{Key: newKey(), If: yes},
	})
}

func testToken(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	token := newToken()
	writes := []item.Write{add(a, 1, no), add(b, 1, nil)}
	after := mustTransact(t, db, token, writes)
	for range 2 {
		check.Must(t, db.Transact(t.Context(), token, writes))
		wantStored(t, db, writes, after)
	}
	after[0] = mustWrite(t, db, add(a, 10, nil))
	check.Must(t, db.Transact(t.Context(), token, writes))
	wantStored(t, db, writes, after)
}

func testRefusedToken(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	token := newToken()
	writes := []item.Write{add(a, 1, nil), item.Check{Key: b, If: yes}}
	mustCancel(t, db, token, writes)
	mustWrite(t, db, item.Put{Item: b.Item()})
	mustTransact(t, db, token, writes)
}

func testOtherWrites(t *testing.T, db store.Store) {
	a := newKey()
	token := newToken()
	after := mustTransact(t, db, token, []item.Write{add(a, 1, nil)})
	wantKind(t, db.Transact(t.Context(), token, []item.Write{add(a, 2, nil)}), store.Unavailable)
	wantItem(t, "item", read(t, db, a), after[0])
}

func (d Deviations) testInvalidTransactions(t *testing.T, db store.Lister) {
	a, b := newKey(), newKey()
	many := make([]item.Write, item.MaxTransactItems+1)
	for i := range many {
		many[i] = add(newKey(), 1, nil)
	}
	for _, tt := range []struct {
		name, token string
		writes      []item.Write
	}{
		{"none", newToken(), []item.Write{}},
		{"too many", newToken(), many},
		{"one item twice", newToken(), []item.Write{add(a, 1, nil), add(a, 1, nil)}},
		{"one item in two kinds", newToken(), []item.Write{add(a, 1, nil), item.Check{Key: a, If: yes}}},
		{"update without action", newToken(), []item.Write{add(a, 1, nil), item.Update{Key: b, If: no}}},
		{"check without condition", newToken(), []item.Write{add(a, 1, nil), item.Check{Key: b}}},
		{"number that is none", newToken(), []item.Write{add(a, 1, nil), item.Update{Key: b, Set: one("x", num("1e126"))}}},
		{"empty index key", newToken(),
			[]item.Write{add(a, 1, nil), item.Update{Key: b, Set: one(item.AttrGSI1PK, item.S(""))}}},
		{"bounds in the wrong order", newToken(),
			[]item.Write{add(a, 1, nil), item.Check{Key: b, If: item.Between("n", item.N(2), item.N(1))}}},
		{"index key too long", newToken(),
			[]item.Write{add(a, 1, nil), item.Update{Key: b, Set: one(item.AttrGSI1SK, item.S(strings.Repeat("x", 1025)))}}},
		{"map with an empty name", newToken(),
			[]item.Write{add(a, 1, nil), item.Update{Key: b, Set: one("x", inMap("", item.N(1)))}}},
		{"a byte too large", newToken(), large(a, item.MaxTransactSize-keys()+1, putting)},
		{"updates too large", newToken(), large(a, item.MaxTransactSize+100_000, updating)},
		{"conditions too large", newToken(), large(a, item.MaxTransactSize+100_000, asking)},
		{"no token", "", []item.Write{add(a, 1, nil)}},
		{"token too long", strings.Repeat("t", item.MaxTokenLength+1), []item.Write{add(a, 1, nil)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d.wantInvalid(t, "transaction: "+tt.name, db.Transact(t.Context(), tt.token, tt.writes)) {
				mustWrite(t, db, item.Delete{Key: a})
			}
			wantItem(t, "item", read(t, db, a), nil)
		})
	}
}

// parts is how many writes large makes.
const parts = 12

// large returns writes of strings with a total size, the first of them at a.
func large(a item.Key, total int, write func(item.Key, item.Value) item.Write) (out []item.Write) {
	for i := range parts {
		size := total / parts
		if i == 0 {
			size += total % parts
		}
		out = append(out, write(a, item.S(strings.Repeat("x", size))))
		a = newKey()
	}
	return out
}

// keys returns the size of the keys and names in large puts.
func keys() int { return parts * (item.Size(newKey().Item()) + len("x")) }

func putting(k item.Key, v item.Value) item.Write { return item.Put{Item: stored(k, one("x", v)...)} }

func updating(k item.Key, v item.Value) item.Write { return item.Update{Key: k, Set: one("x", v)} }

func asking(k item.Key, v item.Value) item.Write {
	return item.Update{Key: k, Set: one("y", item.N(1)), If: item.Any(no, item.Compare("y", item.Eq, v))}
}

// testLarge tests that the size of a transaction is the bytes sent, not the stored items.
func testLarge(t *testing.T, db store.Store) {
	writes := large(newKey(), item.MaxTransactSize-keys(), putting)
	mustTransact(t, db, newToken(), writes)
	small := make([]item.Write, len(writes))
	for i, w := range writes {
		small[i] = item.Update{Key: w.Target(), Set: one("y", item.N(1)), If: item.Exists("x")}
	}
	small = append(small, add(newKey(), 1, nil))
	mustTransact(t, db, newToken(), small)
	for _, w := range writes {
		mustWrite(t, db, item.Delete{Key: w.Target()})
	}
}

func testHundred(t *testing.T, db store.Store) {
	writes := make([]item.Write, item.MaxTransactItems)
	for i := range writes {
		writes[i] = add(newKey(), int64(i), no)
	}
	mustTransact(t, db, newToken(), writes)
}

// testTypeInTransaction tests that an update of the wrong type stops the transaction, and that a
// refusal elsewhere in it is still reported.
func testTypeInTransaction(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	before := stored(a, one("n", item.S("x"))...)
	mustWrite(t, db, item.Put{Item: before})
	wantRejected(t, db.Transact(t.Context(), newToken(), []item.Write{add(b, 1, nil), add(a, 1, nil)}))
	wantItem(t, "item", read(t, db, b), nil)
	wantItem(t, "item", read(t, db, a), before)
}
