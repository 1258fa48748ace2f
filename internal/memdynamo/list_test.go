package memdynamo_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// pagesOf returns how many items each answer to a query has.
func pagesOf(t *testing.T, db *memdynamo.DB, q item.Query) (sizes []int) {
	t.Helper()
	for {
		page, err := db.List(t.Context(), q)
		if err != nil || len(sizes) > 20 {
			t.Fatalf("%v after pages of %v", err, sizes)
		}
		sizes = append(sizes, len(page.Items))
		if q.After = page.Next; q.After == nil {
			return sizes
		}
	}
}

// A page has as many items as the query or the table allows, whichever is less. A full page is
// followed by another, perhaps empty one.
func TestPagesAreBounded(t *testing.T) {
	for _, c := range []struct {
		size, limit int
		want        []int
	}{
		{0, 0, []int{7}}, {0, 3, []int{3, 3, 1}}, {0, 7, []int{7, 0}}, {1, 0, []int{1, 1, 1, 1, 1, 1, 1, 0}},
		{3, 0, []int{3, 3, 1}}, {3, 2, []int{2, 2, 2, 1}}, {3, 5, []int{3, 3, 1}}, {5, 5, []int{5, 2}},
	} {
		db := memdynamo.New(nil)
		db.PageSize = c.size
		for i := range 7 {
			db.Store(item.Key{PK: "p", SK: fmt.Sprint(i)}.Item())
		}
		check.Slices(t, pagesOf(t, db, item.Query{PK: "p", Limit: c.limit}), c.want,
			"pages of %d, a limit of %d", c.size, c.limit)
	}
}

// The first index has whole items. The others have keys, unless all are configured to have whole
// items.
func TestIndexesProjectKeysOrWholeItems(t *testing.T) {
	for _, all := range []bool{false, true} {
		db := memdynamo.New(nil)
		db.ProjectAll = all
		it := key.Item()
		it["n"] = item.N(1)
		for _, index := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
			it[index+"PK"], it[index+"SK"] = item.S("i"), item.S(index)
		}
		db.Store(it)
		for index, whole := range map[string]bool{"": true, "GSI1": true, "GSI2": all, "GSI3": all, "GSI4": all} {
			q := item.Query{Index: index, PK: "i"}
			if index == "" {
				q.PK = key.PK
			}
			page, err := db.List(t.Context(), q)
			if err != nil || len(page.Items) != 1 || item.EqualItems(page.Items[0], it) != whole {
				t.Errorf("index %q, whole items in all: %v: %v, %v", index, all, page.Items, err)
			}
		}
	}
}

// An entry of an index that projects keys costs a unit when it is added, and when it is removed. An
// unchanged entry costs nothing. It exists if the item has both keys.
func TestIndexUnits(t *testing.T) {
	db := memdynamo.New(nil)
	it := item.Key{PK: "p", SK: "s"}.Item()
	it["GSI2PK"], it["GSI2SK"], it["GSI4PK"], it["GSI4SK"] = item.S("a"), item.S("b"), item.S("c"), item.S("d")
	it["GSI3PK"], it["GSI1SK"] = item.S("half"), item.S("half")
	for _, c := range []struct {
		change func()
		want   int
	}{
		{func() { db.Store(it) }, 2},
		{func() { it["n"] = item.N(1); db.Store(it) }, 0},
		{func() { it["GSI2SK"] = item.S("x"); db.Store(it) }, 2},
		{func() { it["GSI2PK"] = item.S("x"); db.Store(it) }, 2},
		{func() { it["GSI3SK"], it["GSI1PK"] = item.S("x"), item.S("x"); db.Store(it) }, 2},
		{func() { delete(it, "GSI2PK"); db.Store(it) }, 1},
		{func() { delete(it, "GSI4SK"); db.Store(it) }, 1},
		{func() { db.Delete(item.KeyOf(it)) }, 2},
	} {
		it = maps.Clone(it)
		c.change()
		check.Equal(t, db.ResetStats().IndexUnits, c.want)
	}
}
