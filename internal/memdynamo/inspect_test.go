package memdynamo_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// Each operation counts once, even if a hook stops it.
func TestStatsCountEachOperation(t *testing.T) {
	for _, applied := range []bool{true, false} {
		db := memdynamo.New(nil)
		db.SetHook(func(memdynamo.Op) (bool, error) { return applied, nil })
		for _, c := range calls {
			if err := c.do(t.Context(), db); (err == nil) != applied {
				t.Error(err)
			}
		}
		got := db.Stats()
		got.WriteUnits, got.IndexUnits, got.ReadUnits = 0, 0, 0
		want := memdynamo.Stats{Updates: 1, Puts: 1, Deletes: 1, Transactions: 1, Reads: 1, Queries: 1, Removals: 1}
		if got != want || got.Calls() != 7 || db.Stats().Calls() != 7 {
			t.Errorf("carried out: %v: %+v, %d calls", applied, got, got.Calls())
		}
	}
	twos := memdynamo.Stats{Updates: 1, Puts: 2, Deletes: 4, Transactions: 8, Reads: 16, Queries: 32, Removals: 64,
		WriteUnits: 128}
	check.Equal(t, twos.Calls(), 127, "calls")
}

// Units are counted by size. A stale read takes half of the units. A removal takes units too.
func TestUnitsFollowSizes(t *testing.T) {
	large := func(sk string, bytes int) item.Item {
		it := item.Key{PK: "p", SK: sk}.Item()
		it["v"] = item.S("")
		it["v"] = item.S(string(make([]byte, bytes-item.Size(it))))
		return it
	}
	read := func(consistent bool, sk ...string) func(*memdynamo.DB) error {
		return func(db *memdynamo.DB) error {
			var keys []item.Key
			for _, sk := range sk {
				keys = append(keys, item.Key{PK: "p", SK: sk})
			}
			return check.Err(db.Read(t.Context(), consistent, keys...))
		}
	}
	list := func(pk string, consistent bool) func(*memdynamo.DB) error {
		return func(db *memdynamo.DB) error {
			return check.Err(db.List(t.Context(), item.Query{PK: pk, Consistent: consistent}))
		}
	}
	for name, c := range map[string]struct {
		do   func(*memdynamo.DB) error
		want memdynamo.Stats
	}{
		"one of 4 KB":             {read(true, "a"), memdynamo.Stats{Reads: 1, ReadUnits: 1}},
		"one of a byte more":      {read(true, "b"), memdynamo.Stats{Reads: 1, ReadUnits: 2}},
		"it, and the other twice": {read(true, "b", "a", "a"), memdynamo.Stats{Reads: 1, ReadUnits: 3}},
		"maybe stale":             {read(false, "b"), memdynamo.Stats{Reads: 1, ReadUnits: 1}},
		"none":                    {read(true, "none"), memdynamo.Stats{Reads: 1, ReadUnits: 1}},
		"all":                     {list("p", true), memdynamo.Stats{Queries: 1, ReadUnits: 3}}, // 2 units and a byte
		"all, maybe stale":        {list("p", false), memdynamo.Stats{Queries: 1, ReadUnits: 1.5}},
		"of nothing":              {list("none", false), memdynamo.Stats{Queries: 1, ReadUnits: .5}},
		"removed": {func(db *memdynamo.DB) error { return db.Remove(t.Context(), item.Key{PK: "p", SK: "b"}) },
			memdynamo.Stats{Removals: 1, WriteUnits: 5}},
		"transaction": {func(db *memdynamo.DB) error {
			return db.Transact(t.Context(), "t", []item.Write{item.Delete{Key: item.Key{PK: "p", SK: "a"}}, put})
		}, memdynamo.Stats{Transactions: 1, WriteUnits: 10}},
	} {
		db := memdynamo.New(nil)
		db.Store(large("a", 4096))
		db.Store(large("b", 4097))
		db.ResetStats()
		if err := c.do(db); err != nil || db.Stats() != c.want {
			t.Errorf("%s: %v, %+v, want %+v", name, err, db.Stats(), c.want)
		}
	}
}

// Items returns the existing items in order of key. They are copies.
func TestItemsAreOrderedCopies(t *testing.T) {
	db := memdynamo.New(nil)
	keys := []item.Key{{PK: "a", SK: "x"}, {PK: "a", SK: "y"}, {PK: "b", SK: "a"}, {PK: "c", SK: "b"}}
	for _, i := range []int{2, 0, 3, 1} {
		db.Store(keys[i].Item())
	}
	var got []item.Key
	for _, it := range db.Items() {
		got = append(got, item.KeyOf(it))
		it["n"] = item.N(1)
	}
	if !slices.Equal(got, keys) || db.Len() != 4 {
		t.Errorf("%v, %d in all, want %v", got, db.Len(), keys)
	}
	one := db.Item(keys[0])
	one["n"] = item.N(1)
	if db.Item(keys[0])["n"] != nil {
		t.Error("an item was changed from outside")
	}
	if db.Delete(keys[0]); db.Item(keys[0]) != nil || db.Len() != 3 {
		t.Errorf("deleted, but there: %v, %d in all", db.Item(keys[0]), db.Len())
	}
	defer func() {
		if recover() == nil {
			t.Error("an item without a key is stored")
		}
	}()
	db.Store(item.Item{"n": item.N(1)})
}

// Sweep removes expired items in order of key, and no items without an expiry.
func TestSweepsRemoveExpiredItems(t *testing.T) {
	db := memdynamo.New(func() int64 { return 7 })
	store := func(pk string, ttl item.Value) {
		it := item.Key{PK: pk, SK: "s"}.Item()
		if ttl != nil {
			it[layout.AttrTTL] = ttl
		}
		db.Store(it)
	}
	for _, pk := range []string{"c", "a", "e", "b", "d"} {
		store(pk, item.N(99))
	}
	store("x", item.N(100))
	store("y", item.S("99"))
	store("z", nil)
	store("half", &types.AttributeValueMemberN{Value: "98.5"})
	db.Drain()
	if n := db.Sweep(100); n != 5 || db.Len() != 4 {
		t.Errorf("%d have gone, and %d are left", n, db.Len())
	}
	for i, c := range db.Drain() {
		want := string(rune('a' + i))
		if c.Key.PK != want || !c.Expired || c.New != nil || c.Old == nil || c.CreatedAt != 7 {
			t.Errorf("change %d is %+v, want that %s expires", i, c, want)
		}
	}
	if db.Delete(item.Key{PK: "x", SK: "s"}); db.Changes(0)[0].Expired {
		t.Error("the deleted item has expired")
	}
	if store("x", nil); db.Changes(0)[1].Expired {
		t.Error("the stored item has expired")
	}
}

// A snapshot has the clock of its table, no hook, and its own items.
func TestSnapshotStandsAlone(t *testing.T) {
	db := memdynamo.New(func() int64 { return 7 })
	db.SetHook(func(memdynamo.Op) (bool, error) { return false, errors.New("x") })
	copied := db.Snapshot()
	check.NoError(t, check.Err(copied.Write(t.Context(), add(1))))
	if c := copied.Changes(0); len(c) != 1 || c[0].CreatedAt != 7 || c[0].Key != key || len(copied.Changes(5)) != 0 {
		t.Errorf("changes %+v", c)
	}
	again := copied.Snapshot()
	copied.Delete(key)
	if !item.Equal(stored(t, again)["n"], item.N(1)) || db.Len()+copied.Len() != 0 || len(again.Changes(0)) != 0 {
		t.Errorf("original %v, snapshots %v and %v", db.Items(), copied.Items(), again.Items())
	}
}
