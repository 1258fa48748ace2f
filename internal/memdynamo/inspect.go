package memdynamo

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Change is one entry of the table's stream: one write's change of one item. Writes that change
// nothing have no entry.
type Change struct {
	Seq       int64 // 1, 2, 3 ... in order of the writes
	CreatedAt int64 // epoch milliseconds
	Key       item.Key
	Old       item.Item // nil: the item is new
	New       item.Item // nil: the item was deleted
	Expired   bool      // removed by [DB.Sweep], like the TTL service does
}

// SequenceNumber returns Seq in the form of DynamoDB Streams: decimal digits that increase from
// record to record.
func (c Change) SequenceNumber() string {
	const base = 100_000_000_000_000_000 // real sequence numbers have 21 digits or more
	return strconv.FormatInt(base+c.Seq, 10) + "00000"
}

// Stats counts calls, including those that a hook stopped, and the capacity units that they would
// have consumed. Reads are BatchGetItems, Removals BatchWriteItems.
type Stats struct {
	Updates, Puts, Deletes, Transactions, Reads int
	Queries, Removals                           int
	WriteUnits                                  int // of the table itself
	IndexUnits                                  int // written to indexes that project keys only
	ReadUnits                                   float64
}

// Calls returns the number of all calls.
func (s Stats) Calls() int {
	return s.Updates + s.Puts + s.Deletes + s.Transactions + s.Reads + s.Queries + s.Removals
}

func (s *Stats) count(op OpName) {
	switch op {
	case UpdateItem:
		s.Updates++
	case PutItem:
		s.Puts++
	case DeleteItem:
		s.Deletes++
	case TransactWriteItems:
		s.Transactions++
	case BatchGetItem:
		s.Reads++
	case Query:
		s.Queries++
	case BatchWriteItem:
		s.Removals++
	}
}

// Stats returns the counts so far.
func (db *DB) Stats() Stats {
	f := db.lock()
	defer db.mu.Unlock()
	return f.stats
}

// ResetStats sets the counts to zero and returns the earlier ones.
func (db *DB) ResetStats() Stats {
	f := db.lock()
	defer db.mu.Unlock()
	s := f.stats
	f.stats = Stats{}
	return s
}

// Item returns the item at k, nil if there is none.
func (db *DB) Item(k item.Key) item.Item {
	f := db.lock()
	defer db.mu.Unlock()
	return maps.Clone(f.items[k])
}

// Items returns all items, sorted by key.
func (db *DB) Items() []item.Item {
	f := db.lock()
	defer db.mu.Unlock()
	out := make([]item.Item, 0, len(f.items))
	for _, k := range slices.SortedFunc(maps.Keys(f.items), compareKeys) {
		out = append(out, maps.Clone(f.items[k]))
	}
	return out
}

func compareKeys(a, b item.Key) int {
	return cmp.Or(cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK))
}

// Len returns the number of items.
func (db *DB) Len() int {
	f := db.lock()
	defer db.mu.Unlock()
	return len(f.items)
}

// Store puts an item into the table, or replaces it, like another client: without condition or
// hook. It panics if DynamoDB cannot store the item.
func (db *DB) Store(it item.Item) {
	if err := item.ValidateItem(it); err != nil {
		panic("bug: " + err.Error())
	}
	f := db.lock()
	defer db.mu.Unlock()
	f.put(item.KeyOf(it), itemtest.Canonical(it), db.now(), false)
}

// Delete removes the item at k, if there is one, unconditionally.
func (db *DB) Delete(k item.Key) {
	f := db.lock()
	defer db.mu.Unlock()
	f.put(k, nil, db.now(), false)
}

// Sweep removes the items whose ttl is before now, in epoch seconds, and returns how many. DynamoDB
// does so with a delay and in an unknown order; Sweep uses the order of the keys.
func (db *DB) Sweep(now int64) int {
	f := db.lock()
	defer db.mu.Unlock()
	var gone []item.Key
	for k, it := range f.items {
		n, ok := it[layout.AttrTTL].(*types.AttributeValueMemberN)
		if !ok {
			continue
		}
		if at, err := strconv.ParseInt(n.Value, 10, 64); err == nil && at < now {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(gone, compareKeys)
	for _, k := range gone {
		f.put(k, nil, db.now(), true)
	}
	return len(gone)
}

// Changes returns the changes after sequence number seq (0: all), except those that Drain has
// returned.
func (db *DB) Changes(seq int64) []Change {
	f := db.lock()
	defer db.mu.Unlock()
	return slices.Clone(f.changes[min(max(seq-f.drained, 0), int64(len(f.changes))):])
}

// Drain returns the changes since the last Drain and forgets them, so a table can be used for any
// length of time.
func (db *DB) Drain() []Change {
	f := db.lock()
	defer db.mu.Unlock()
	out := f.changes
	f.drained += int64(len(out))
	f.changes = nil
	return out
}

// Snapshot returns a new table with the same items, and without changes, tokens, counts or hook. It
// shares the clock.
func (db *DB) Snapshot() *DB {
	f := db.lock()
	defer db.mu.Unlock()
	out := &DB{Now: db.Now}
	for k, it := range f.items {
		out.facts.set(k, it)
	}
	return out
}
