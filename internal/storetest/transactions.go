package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

func add(k item.Key, n int64, c item.Cond) item.Update {
	return item.Update{Key: k, Add: one("n", item.N(n)), If: c}
}

func testTransactions(t *testing.T, db store.Store) {
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
	err := db.Transact(t.Context(), newToken(), []item.Write{
		add(updated, 2, item.Compare("n", item.Eq, item.N(1))),
		item.Put{Item: stored(created, one("a-b", item.S("x"))...), If: no},
		item.Put{Item: stored(replaced, one("c", item.S("y"))...)},
		item.Delete{Key: removed, If: yes},
		item.Check{Key: checked, If: item.Between("n", item.N(0), item.N(1))},
	})
	check.Must(t, err)
	wantItem(t, "updated item", read(t, db, updated), stored(updated, one("n", item.N(3))...))
	wantItem(t, "created item", read(t, db, created), stored(created, one("a-b", item.S("x"))...))
	wantItem(t, "replaced item", read(t, db, replaced), stored(replaced, one("c", item.S("y"))...))
	wantItem(t, "removed item", read(t, db, removed), nil)
	wantItem(t, "checked item", read(t, db, checked), stored(checked, one("n", item.N(1))...))
}

// wantCanceled demands a refused transaction with these images; a nil entry is
// a write whose condition held, an empty item a refusal without an image.
func wantCanceled(t *testing.T, err error, olds ...item.Item) {
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
	before := stored(a, one("n", item.N(1))...)
	mustWrite(t, db, item.Put{Item: before})
	for name, w := range map[string]item.Write{
		"update": add(a, 1, item.Compare("n", item.Gt, item.N(1))),
		"put":    item.Put{Item: a.Item(), If: no},
		"delete": item.Delete{Key: a, If: item.Absent("n")},
		"check":  item.Check{Key: a, If: item.Exists("x")},
	} {
		t.Run(name, func(t *testing.T) {
			wantCanceled(t, db.Transact(t.Context(), newToken(), []item.Write{add(b, 1, nil), w}), nil, before)
			wantCanceled(t, db.Transact(t.Context(), newToken(), []item.Write{w, add(b, 1, nil)}), before, nil)
			wantItem(t, "refusing item", read(t, db, a), before)
			wantItem(t, "other item", read(t, db, b), nil)
		})
	}
}

func testEveryRefusal(t *testing.T, db store.Store) {
	a, b, c := newKey(), newKey(), newKey()
	for _, k := range []item.Key{a, c} {
		mustWrite(t, db, item.Put{Item: k.Item()})
	}
	writes := []item.Write{
		item.Put{Item: a.Item(), If: no},
		item.Check{Key: b, If: yes},
		add(c, 1, yes),
		item.Delete{Key: newKey(), If: yes},
	}
	err := db.Transact(t.Context(), newToken(), writes)
	wantCanceled(t, err, a.Item(), item.Item{}, nil, item.Item{})
	wantStored(t, db, writes, []item.Item{a.Item(), nil, c.Item(), nil})
}

func testToken(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	token := newToken()
	writes := []item.Write{add(a, 1, no), add(b, 1, nil)}
	for range 3 {
		check.Must(t, db.Transact(t.Context(), token, writes))
	}
	mustWrite(t, db, add(a, 10, nil))
	check.Must(t, db.Transact(t.Context(), token, writes))
	wantItem(t, "first item", read(t, db, a), stored(a, one("n", item.N(11))...))
	wantItem(t, "second item", read(t, db, b), stored(b, one("n", item.N(1))...))
}

func testRefusedToken(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	token := newToken()
	writes := []item.Write{add(a, 1, nil), item.Check{Key: b, If: yes}}
	wantCanceled(t, db.Transact(t.Context(), token, writes), nil, item.Item{})
	mustWrite(t, db, item.Put{Item: b.Item()})
	check.Must(t, db.Transact(t.Context(), token, writes), "the same token after a refusal")
	wantItem(t, "item", read(t, db, a), stored(a, one("n", item.N(1))...))
}

func testOtherWrites(t *testing.T, db store.Store) {
	a := newKey()
	token := newToken()
	check.Must(t, db.Transact(t.Context(), token, []item.Write{add(a, 1, nil)}))
	wantKind(t, db.Transact(t.Context(), token, []item.Write{add(a, 2, nil)}), store.Unavailable)
	wantItem(t, "item", read(t, db, a), stored(a, one("n", item.N(1))...))
}

func (d Deviations) testInvalidTransactions(t *testing.T, db store.Store) {
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
		{"a byte too large", newToken(), puts(a, item.MaxTransactSize+1)},
		{"updates too large", newToken(), updates(a, item.MaxTransactSize+100_000)},
		{"conditions too large", newToken(), conditions(a, item.MaxTransactSize+100_000)},
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

// parts cuts a size into the sizes of twelve large strings, after the fixed part
// of each.
func parts(total, fixed int) []item.Value {
	const n = 12
	out := make([]item.Value, n)
	for i := range out {
		size := total / n
		if i == 0 {
			size += total % n
		}
		out[i] = item.S(strings.Repeat("x", size-fixed))
	}
	return out
}

// puts returns a transaction of items that have a total size, the first one at a.
func puts(a item.Key, total int) (out []item.Write) {
	for _, v := range parts(total, item.Size(a.Item())+1) {
		out = append(out, item.Put{Item: stored(a, one("x", v)...)})
		a = newKey()
	}
	return out
}

func updates(a item.Key, total int) (out []item.Write) {
	for _, v := range parts(total, 0) {
		out = append(out, item.Update{Key: a, Set: one("x", v)})
		a = newKey()
	}
	return out
}

func conditions(a item.Key, total int) (out []item.Write) {
	for _, v := range parts(total, 0) {
		out = append(out, item.Update{Key: a, Set: one("y", item.N(1)), If: item.Any(no, item.Compare("y", item.Eq, v))})
		a = newKey()
	}
	return out
}

// testLarge: a transaction's size is the bytes sent, not the stored items.
func testLarge(t *testing.T, db store.Store) {
	writes := puts(newKey(), item.MaxTransactSize)
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
	after := mustTransact(t, db, newToken(), writes)
	last := writes[len(writes)-1].Target()
	wantItem(t, "last item", after[len(after)-1], stored(last, one("n", item.N(99))...))
}

// testTypeInTransaction: an update of the wrong type stops the transaction; a refusal elsewhere in
// it is still reported.
func testTypeInTransaction(t *testing.T, db store.Store) {
	a, b := newKey(), newKey()
	before := stored(a, one("n", item.S("x"))...)
	mustWrite(t, db, item.Put{Item: before})
	wantRejected(t, db.Transact(t.Context(), newToken(), []item.Write{add(b, 1, nil), add(a, 1, nil)}))
	wantItem(t, "item", read(t, db, b), nil)
	wantItem(t, "item", read(t, db, a), before)
}
