package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// family is a partition with some items, which an index also holds.
type family struct {
	pk, index string
	items     []item.Item // in order of the sort key
}

func newFamily(t *testing.T, db store.Store) family {
	t.Helper()
	f := family{pk: "storetest/" + rand.Text(), index: "storetest/i" + rand.Text()}
	for i, sk := range []string{"#A#1", "#A#10", "#A#2", "#B#1", "#B#é", "c"} {
		it := item.Key{PK: f.pk, SK: sk}.Item()
		it["n"] = item.N(int64(i))
		it[item.AttrGSI1PK], it[item.AttrGSI1SK] = item.S(f.index), item.S(sk)
		it[item.AttrGSI3PK], it[item.AttrGSI3SK] = item.S(f.index), item.S(sk)
		mustWrite(t, db, item.Put{Item: it})
		f.items = append(f.items, it)
	}
	return f
}

// all returns every item that a query finds, page by page.
func all(t *testing.T, db store.Lister, q item.Query) (out []item.Item, pages int) {
	t.Helper()
	for {
		page, err := db.List(t.Context(), q)
		check.Must(t, err, "%+v", q)
		out, pages = append(out, page.Items...), pages+1
		if q.After = page.Next; q.After == nil {
			return out, pages
		}
		if pages > 100 {
			t.Fatalf("%+v does not end", q)
		}
	}
}

func wantItems(t *testing.T, what string, got, want []item.Item) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d items, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		wantItem(t, fmt.Sprintf("%s: item %d", what, i), got[i], want[i])
	}
}

func testQueries(t *testing.T, db store.Lister) {
	f := newFamily(t, db)
	for _, tt := range []struct {
		name string
		q    item.Query
		want []item.Item
	}{
		{"all", item.Query{}, f.items},
		{"prefix", item.Query{Prefix: "#A#"}, f.items[:3]},
		{"longer prefix", item.Query{Prefix: "#A#1"}, f.items[:2]},
		{"between", item.Query{From: "#A#10", To: "#B#1"}, f.items[1:4]},
		{"one point", item.Query{From: "#A#2", To: "#A#2"}, f.items[2:3]},
		{"from", item.Query{From: "#B#1"}, f.items[3:]},
		{"to", item.Query{To: "#A#2"}, f.items[:3]},
		{"nothing", item.Query{Prefix: "#Z"}, nil},
	} {
		for _, limit := range []int{0, 1, 2, 3} {
			for _, down := range []bool{false, true} {
				q, want := tt.q, slices.Clone(tt.want)
				if q.Limit, q.Descending = limit, down; down {
					slices.Reverse(want)
				}
				name := fmt.Sprintf("%s/limit %d/descending %v", tt.name, limit, down)
				q.PK, q.Consistent = f.pk, true
				got, _ := all(t, db, q)
				wantItems(t, name, got, want)
				q.PK, q.Index, q.Consistent = f.index, "GSI1", false
				got, _ = all(t, db, q)
				wantItems(t, name+"/index of whole items", got, want)
			}
		}
	}
	t.Run("index of keys", func(t *testing.T) {
		q := item.Query{Index: "GSI3", PK: f.index, Prefix: "#B#"}
		got, _ := all(t, db, q)
		wantItems(t, "keys", got, []item.Item{itemtest.Position(q, f.items[3]), itemtest.Position(q, f.items[4])})
	})
	t.Run("nobody there", func(t *testing.T) {
		got, pages := all(t, db, item.Query{PK: f.pk + "x"})
		if len(got) != 0 || pages != 1 {
			t.Errorf("%d items on %d pages", len(got), pages)
		}
	})
	t.Run("more than fits one answer", func(t *testing.T) { testLargeQuery(t, db) })
	t.Run("invalid", func(t *testing.T) { testInvalidQueries(t, db, f) })
	t.Run("removal", func(t *testing.T) { testRemoval(t, db) })
}

// testLargeQuery lists 3 MB; a response holds 1 MB.
func testLargeQuery(t *testing.T, db store.Lister) {
	pk := "storetest/" + rand.Text()
	var want []item.Item
	for i := range 10 {
		it := item.Key{PK: pk, SK: fmt.Sprintf("#%02d", i)}.Item()
		it["x"] = item.S(strings.Repeat("x", 300<<10))
		mustWrite(t, db, item.Put{Item: it})
		want = append(want, it)
	}
	got, pages := all(t, db, item.Query{PK: pk})
	wantItems(t, "large", got, want)
	if pages < 3 {
		t.Errorf("%d pages, want at least 3", pages)
	}
}

func testInvalidQueries(t *testing.T, db store.Lister, f family) {
	for _, q := range []item.Query{
		{},
		{PK: f.pk, Index: "GSI9"},
		{PK: f.index, Index: "GSI1", Consistent: true},
		{PK: f.pk, From: "b", To: "a"},
		{PK: f.pk, Prefix: "a", From: "a"},
		{PK: f.pk, Limit: -1},
	} {
		_, err := db.List(t.Context(), q)
		wantRejected(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.List(ctx, item.Query{PK: f.pk})
	wantRejected(t, err)
	wantRejected(t, db.Remove(ctx, item.KeyOf(f.items[0])))
	wantItem(t, "item", read(t, db, item.KeyOf(f.items[0])), f.items[0])
}

// testRemoval deletes existing and missing items, and repeated keys. It needs at least one key.
func testRemoval(t *testing.T, db store.Lister) {
	keys := make([]item.Key, item.MaxRemoveKeys-1)
	for i := range keys {
		keys[i] = newKey()
		if i%4 != 0 {
			mustWrite(t, db, item.Put{Item: keys[i].Item()})
		}
	}
	check.Must(t, db.Remove(t.Context(), append(keys, keys[1])...))
	for _, k := range keys {
		wantItem(t, "item", read(t, db, k), nil)
	}
	wantRejected(t, db.Remove(t.Context()))
	wantRejected(t, db.Remove(t.Context(), append(keys, newKey(), newKey())...))
	wantRejected(t, db.Remove(t.Context(), item.Key{PK: "x"}))
}
