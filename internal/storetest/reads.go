package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

func testReads(t *testing.T, db store.Lister) {
	keys := make([]item.Key, item.MaxReadKeys)
	want := make([]item.Item, len(keys))
	for i := range keys {
		keys[i] = newKey()
		if i%3 != 0 {
			want[i] = stored(keys[i], one("n", item.N(int64(i)))...)
			mustWrite(t, db, item.Put{Item: want[i]})
		}
	}
	wants := func(t *testing.T, consistent bool, keys []item.Key, want []item.Item) {
		t.Helper()
		got, err := db.Read(t.Context(), consistent, keys...)
		check.Must(t, err)
		if len(got) != len(want) {
			t.Fatalf("%d items for %d keys", len(got), len(want))
		}
		for i := range want {
			check.Equal(t, got[i] == nil, want[i] == nil, "item %d is %v, want %v", i, got[i], want[i])
			wantItem(t, "item", got[i], want[i])
		}
	}
	t.Run("a hundred, some absent, in order", func(t *testing.T) { wants(t, true, keys, want) })
	t.Run("eventually consistent", func(t *testing.T) { wants(t, false, keys, want) })
	t.Run("one", func(t *testing.T) { wants(t, true, keys[1:2], want[1:2]) })
	t.Run("none", func(t *testing.T) { wants(t, true, nil, nil) })
	t.Run("a key twice", func(t *testing.T) {
		wants(t, true, []item.Key{keys[1], keys[2], keys[1]}, []item.Item{want[1], want[2], want[1]})
	})
	t.Run("too many", func(t *testing.T) {
		_, err := db.Read(t.Context(), true, append(keys, newKey())...)
		wantRejected(t, err)
	})
	t.Run("an empty key", func(t *testing.T) {
		_, err := db.Read(t.Context(), true, keys[1], item.Key{PK: "x"})
		wantRejected(t, err)
	})
	t.Run("more than fits one answer", func(t *testing.T) { testLargeRead(t, db, wants) })
}

// testLargeRead reads 20 MB, more than the 16 MB that one response holds.
func testLargeRead(t *testing.T, db store.Store, wants func(*testing.T, bool, []item.Key, []item.Item)) {
	keys := make([]item.Key, 50)
	want := make([]item.Item, len(keys))
	long := item.S(strings.Repeat("x", 399<<10))
	for i := range keys {
		keys[i] = newKey()
		want[i] = stored(keys[i], one("x", long)...)
		mustWrite(t, db, item.Put{Item: want[i]})
	}
	wants(t, true, keys, want)
}

// testContexts tests calls whose context is done before they start: they must write nothing and
// fail as unavailable.
func testContexts(t *testing.T, db store.Lister) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := newKey()
	for _, w := range []item.Write{add(k, 1, nil), item.Put{Item: k.Item()}, item.Delete{Key: k}} {
		_, err := db.Write(ctx, w)
		wantKind(t, err, store.Unavailable)
	}
	wantKind(t, db.Transact(ctx, newToken(), []item.Write{add(k, 1, nil)}), store.Unavailable)
	_, err := db.Read(ctx, true, k)
	wantKind(t, err, store.Unavailable)
	wantItem(t, "item", read(t, db, k), nil)
}
