package usage

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// remembered is how many snapshots one query returns, to find the last one that counted a shard.
// Ten cost half a read unit, and are enough unless other shards of the bucket were active for ten
// hours without this one.
const remembered = 10

// Remembered is the most queries for a mark. Records lost before all their snapshots stay lost.
const Remembered = 6

// Snapshots holds the snapshots read so far for a total. The zero Snapshots holds none.
type Snapshots struct {
	Known   bool
	Current item.Item // the total's own; nil: there is none

	// Previous is the earlier snapshots of the finest kind, latest first.
	PreviousKnown bool
	Previous      []item.Item

	// Seen is the snapshots of the bucket that were read, of all kinds, latest first: the total's
	// own and earlier ones.
	Seen  []item.Item
	Whole bool // Seen is complete
	Sure  bool // they were read consistently
}

// Traced reports whether the answers to PreviousQuery include the last snapshot that counted each
// shard.
func (t *Total) Traced(items []item.Item) bool {
	return !slices.ContainsFunc(t.Chains, func(c Part) bool {
		return (!c.Runs[0].Born || t.Over) && c.Follows == 0 && !slices.ContainsFunc(items, func(it item.Item) bool {
			_, ok := ledger.MarksOf(it).Shard(c.Shard)
			return ok && startOf(it) < t.Start
		})
	})
}

// PreviousQuery finds the snapshots of the bucket up to the total's own, of all kinds of windows,
// latest first. It may also find snapshots of other resources: see [Total.Own].
func (t *Total) PreviousQuery() item.Query {
	k := t.Key()
	prefix := layout.UsageKey(t.Namespace, t.Entity, t.Resource, "").SK
	return item.Query{PK: k.PK, From: prefix, To: k.SK, Descending: true, Limit: remembered}
}

// Own drops snapshots of other resources from the answers to PreviousQuery: the keys of the
// resource gpt#2023 lie between those that gpt has.
func (t *Total) Own(items []item.Item) []item.Item {
	return slices.DeleteFunc(items, func(it item.Item) bool {
		resource := ledger.ResourceOf(it)
		return resource != "" && resource != t.Resource
	})
}

// Sift finds the total's own snapshot, and the earlier ones of its kind, among the answers to
// PreviousQuery.
func (t *Total) Sift(items []item.Item) Snapshots {
	known := Snapshots{Known: true, PreviousKnown: true, Seen: items}
	for _, it := range items {
		switch {
		case item.KeyOf(it) == t.Key():
			known.Current = it
		case ledger.WindowOf(it) == string(t.Window):
			known.Previous = append(known.Previous, it)
		}
	}
	return known
}

// startOf returns the start of a snapshot's window, epoch milliseconds, or 0 if it is not stored.
func startOf(snapshot item.Item) int64 {
	t, err := time.Parse(time.RFC3339, ledger.WindowStartOf(snapshot))
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}
