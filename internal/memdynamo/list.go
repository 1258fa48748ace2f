package memdynamo

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

var _ store.Lister = (*DB)(nil)

// maxPage is the greatest size of the items in one query response, in bytes.
const maxPage = 1 << 20

// List implements [store.Lister]. Index GSI1 projects whole items, the others only keys; see
// [DB.ProjectAll]. All are always consistent.
func (db *DB) List(ctx context.Context, q item.Query) (item.Page, error) {
	return call(ctx, db, Op{Name: Query, Query: q}, func() (item.Page, error) { return db.query(q) })
}

// Remove implements [store.Lister].
func (db *DB) Remove(ctx context.Context, keys ...item.Key) error {
	op := Op{Name: BatchWriteItem, Keys: keys}
	_, err := call(ctx, db, op, func() (any, error) { return nil, db.remove(keys) })
	return err
}

func (db *DB) query(q item.Query) (item.Page, error) {
	f := db.lock()
	defer db.mu.Unlock()
	f.stats.count(Query)
	if err := q.Validate(); err != nil {
		return item.Page{}, refuse(Query, err)
	}
	var all []item.Item
	for it := range f.candidates(q) {
		if itemtest.Matches(q, it) && (q.After == nil || itemtest.Compare(q, q.After, it) < 0) {
			all = append(all, it)
		}
	}
	slices.SortFunc(all, func(a, b item.Item) int { return itemtest.Compare(q, a, b) })
	most := q.Limit
	if db.PageSize > 0 && (most == 0 || db.PageSize < most) {
		most = db.PageSize
	}
	var page item.Page
	size := 0
	for _, it := range all {
		size += item.Size(it)
		shown := maps.Clone(it)
		if q.Index != "" && q.Index != "GSI1" && !db.ProjectAll {
			shown = itemtest.Position(q, it)
		}
		if page.Items = append(page.Items, shown); size >= maxPage || len(page.Items) == most {
			page.Next = itemtest.Position(q, it)
			break
		}
	}
	f.stats.ReadUnits += readUnits(size, q.Consistent)
	return page, nil
}

// candidates yields the items of the queried partition, or for an index all items, in no order.
func (f *facts) candidates(q item.Query) iter.Seq[item.Item] {
	if q.Index != "" {
		return maps.Values(f.items)
	}
	return func(yield func(item.Item) bool) {
		for sk := range f.sorted[q.PK] {
			if !yield(f.items[item.Key{PK: q.PK, SK: sk}]) {
				return
			}
		}
	}
}

// the indexes of the table
var indexes = []string{"GSI1", "GSI2", "GSI3", "GSI4"}

// indexUnits returns the write units of the indexes for a write of the table: one for each entry
// added or removed, none if the keys stay the same.
func indexUnits(before, after item.Item) (units int) {
	for _, index := range indexes {
		pk, sk := index+item.AttrPK, index+item.AttrSK
		was, is := before[pk] != nil && before[sk] != nil, after[pk] != nil && after[sk] != nil
		if was && is && item.Equal(before[pk], after[pk]) && item.Equal(before[sk], after[sk]) {
			continue
		}
		if was {
			units++
		}
		if is {
			units++
		}
	}
	return units
}

func (db *DB) remove(keys []item.Key) error {
	if n := len(keys); n < 1 || n > item.MaxRemoveKeys {
		return refuse(BatchWriteItem, fmt.Errorf("%d keys, 1 to %d are accepted", n, item.MaxRemoveKeys))
	}
	for _, k := range keys {
		if err := item.Validate(item.Delete{Key: k}); err != nil {
			return refuse(BatchWriteItem, err)
		}
	}
	f := db.lock()
	defer db.mu.Unlock()
	f.stats.count(BatchWriteItem)
	for _, k := range keys {
		f.stats.WriteUnits += itemtest.WriteUnits(f.items[k], nil)
		f.put(k, nil, db.now(), false)
	}
	return nil
}
