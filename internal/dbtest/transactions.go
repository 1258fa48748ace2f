package dbtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

func add(k table.Key, n int64, c table.Cond) table.Update {
	return table.Update{Key: k, Add: one("n", table.N(n)), If: c}
}

func testTransactions(t *testing.T, db store.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"all kinds of writes", testAllKinds},
		{"one refusal stops all", testOneRefusal},
		{"every refusal is told", testEveryRefusal},
		{"a token works once", testToken},
		{"a refused token works again", testRefusedToken},
		{"a token with other writes", testOtherWrites},
		{"a hundred writes", testHundred},
		{"types that do not fit", testTypeInTransaction},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, db) })
	}
}

func testAllKinds(t *testing.T, db store.Store) {
	updated, created, replaced, removed, checked := newKey(), newKey(), newKey(), newKey(), newKey()
	for _, k := range []table.Key{updated, replaced, removed, checked} {
		mustWrite(t, db, table.Put{Item: item(k, one("n", table.N(1))...)})
	}
	err := db.Transact(t.Context(), newToken(), []table.Write{
		add(updated, 2, table.Compare("n", table.Eq, table.N(1))),
		table.Put{Item: item(created, one("a-b", table.S("x"))...), If: no},
		table.Put{Item: item(replaced, one("c", table.S("y"))...)},
		table.Delete{Key: removed, If: yes},
		table.Check{Key: checked, If: table.Between("n", table.N(0), table.N(1))},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantItem(t, "updated item", read(t, db, updated), item(updated, one("n", table.N(3))...))
	wantItem(t, "created item", read(t, db, created), item(created, one("a-b", table.S("x"))...))
	wantItem(t, "replaced item", read(t, db, replaced), item(replaced, one("c", table.S("y"))...))
	wantItem(t, "removed item", read(t, db, removed), nil)
	wantItem(t, "checked item", read(t, db, checked), item(checked, one("n", table.N(1))...))
}

// wantCanceled demands a refused transaction with these images; a nil entry is
// a write whose condition held, an empty item a refusal without an image.
func wantCanceled(t *testing.T, err error, olds ...table.Item) {
	t.Helper()
	c, ok := errors.AsType[*store.Canceled](err)
	if !ok {
		t.Errorf("error is %v, want a refused transaction", err)
		return
	}
	if len(c.Reasons) != len(olds) {
		t.Fatalf("%d reasons for %d writes", len(c.Reasons), len(olds))
	}
	for i, old := range olds {
		if got := c.Reasons[i].Refused; got != (old != nil) {
			t.Errorf("write %d refused: %v, want %v", i, got, old != nil)
		}
		wantItem(t, "image", c.Reasons[i].Old, old)
	}
}

func testOneRefusal(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	before := item(a, one("n", table.N(1))...)
	mustWrite(t, db, table.Put{Item: before})
	for name, w := range map[string]table.Write{
		"update": add(a, 1, table.Compare("n", table.Gt, table.N(1))),
		"put":    table.Put{Item: a.Item(), If: no},
		"delete": table.Delete{Key: a, If: table.Absent("n")},
		"check":  table.Check{Key: a, If: table.Exists("x")},
	} {
		t.Run(name, func(t *testing.T) {
			wantCanceled(t, db.Transact(t.Context(), newToken(), []table.Write{add(b, 1, nil), w}), nil, before)
			wantCanceled(t, db.Transact(t.Context(), newToken(), []table.Write{w, add(b, 1, nil)}), before, nil)
			wantItem(t, "refusing item", read(t, db, a), before)
			wantItem(t, "other item", read(t, db, b), nil)
		})
	}
}

func testEveryRefusal(t *testing.T, db store.Store) {
	a, b, c := newKey(), newKey(), newKey()
	for _, k := range []table.Key{a, c} {
		mustWrite(t, db, table.Put{Item: k.Item()})
	}
	err := db.Transact(t.Context(), newToken(), []table.Write{
		table.Put{Item: a.Item(), If: no},
		table.Check{Key: b, If: yes},
		add(c, 1, yes),
		table.Delete{Key: newKey(), If: yes},
	})
	wantCanceled(t, err, a.Item(), table.Item{}, nil, table.Item{})
}

func testToken(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	token := newToken()
	writes := []table.Write{add(a, 1, no), add(b, 1, nil)}
	for range 3 {
		if err := db.Transact(t.Context(), token, writes); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, db, add(a, 10, nil))
	if err := db.Transact(t.Context(), token, writes); err != nil {
		t.Fatal(err)
	}
	wantItem(t, "first item", read(t, db, a), item(a, one("n", table.N(11))...))
	wantItem(t, "second item", read(t, db, b), item(b, one("n", table.N(1))...))
}

func testRefusedToken(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	token := newToken()
	writes := []table.Write{add(a, 1, nil), table.Check{Key: b, If: yes}}
	wantCanceled(t, db.Transact(t.Context(), token, writes), nil, table.Item{})
	mustWrite(t, db, table.Put{Item: b.Item()})
	if err := db.Transact(t.Context(), token, writes); err != nil {
		t.Fatalf("the same token after a refusal: %v", err)
	}
	wantItem(t, "item", read(t, db, a), item(a, one("n", table.N(1))...))
}

func testOtherWrites(t *testing.T, db store.Store) {
	a := newKey()
	token := newToken()
	if err := db.Transact(t.Context(), token, []table.Write{add(a, 1, nil)}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, db.Transact(t.Context(), token, []table.Write{add(a, 2, nil)}), store.Unavailable)
	wantItem(t, "item", read(t, db, a), item(a, one("n", table.N(1))...))
}

func (d Deviations) testInvalidTransactions(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	many := make([]table.Write, table.MaxTransactItems+1)
	for i := range many {
		many[i] = add(newKey(), 1, nil)
	}
	for _, tt := range []struct {
		name, token string
		writes      []table.Write
	}{
		{"none", newToken(), []table.Write{}},
		{"too many", newToken(), many},
		{"one item twice", newToken(), []table.Write{add(a, 1, nil), add(a, 1, nil)}},
		{"one item in two kinds", newToken(), []table.Write{add(a, 1, nil), table.Check{Key: a, If: yes}}},
		{"update without action", newToken(), []table.Write{add(a, 1, nil), table.Update{Key: b, If: no}}},
		{"check without condition", newToken(), []table.Write{add(a, 1, nil), table.Check{Key: b}}},
		{"number that is none", newToken(), []table.Write{add(a, 1, nil), table.Update{Key: b, Set: one("x", num("1e126"))}}},
		{"empty index key", newToken(), []table.Write{add(a, 1, nil), table.Update{Key: b, Set: one(table.AttrGSI1PK, table.S(""))}}},
		{"bounds in the wrong order", newToken(), []table.Write{add(a, 1, nil), table.Check{Key: b, If: table.Between("n", table.N(2), table.N(1))}}},
		{"no token", "", []table.Write{add(a, 1, nil)}},
		{"token too long", strings.Repeat("t", table.MaxTokenLength+1), []table.Write{add(a, 1, nil)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			known := d.wantInvalid(t, "transaction: "+tt.name, db.Transact(t.Context(), tt.token, tt.writes))
			if !known {
				wantItem(t, "item", read(t, db, a), nil)
			}
		})
	}
}

func testHundred(t *testing.T, db store.Store) {
	writes := make([]table.Write, table.MaxTransactItems)
	for i := range writes {
		writes[i] = add(newKey(), int64(i), no)
	}
	if err := db.Transact(t.Context(), newToken(), writes); err != nil {
		t.Fatal(err)
	}
	last := writes[len(writes)-1].Target()
	wantItem(t, "last item", read(t, db, last), item(last, one("n", table.N(99))...))
}

// testTypeInTransaction: an update that does not fit what is stored stops the
// transaction; a refusal elsewhere in it is told all the same.
func testTypeInTransaction(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	before := item(a, one("n", table.S("x"))...)
	mustWrite(t, db, table.Put{Item: before})
	wantKind(t, db.Transact(t.Context(), newToken(), []table.Write{add(b, 1, nil), add(a, 1, nil)}), store.Unavailable)
	wantItem(t, "item", read(t, db, b), nil)
	wantItem(t, "item", read(t, db, a), before)
}
