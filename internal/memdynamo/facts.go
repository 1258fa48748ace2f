package memdynamo

import (
	"fmt"
	"reflect"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// facts is the content of a table. A function that has it holds its lock.
type facts struct {
	items   map[item.Key]item.Item
	before  map[item.Key]item.Item     // items before their last writes
	sorted  map[string]map[string]bool // sort keys by partition key, for queries
	tokens  map[string]token
	changes []Change
	drained int64 // how many changes Drain has returned
	stats   Stats
}

// token is a completed transaction.
type token struct {
	at     int64
	writes []item.Write
}

// tokenLife is how long a transaction can be repeated without effect (API
// reference, TransactWriteItems).
const tokenLife = 10 * time.Minute

// put stores an item (nil: deletes it) and records the change, made at an instant in epoch ms.
func (f *facts) put(k item.Key, after item.Item, now int64, expired bool) {
	before := f.items[k]
	f.set(k, after)
	f.before[k] = before
	if item.EqualItems(before, after) {
		return // a write that changes nothing leaves no record
	}
	f.stats.IndexUnits += indexUnits(before, after)
	f.changes = append(f.changes, Change{
		Seq: f.drained + int64(len(f.changes)) + 1, CreatedAt: now, Key: k, Old: before, New: after, Expired: expired,
	})
}

// set stores an item (nil: deletes it).
func (f *facts) set(k item.Key, after item.Item) {
	if f.items == nil {
		f.items, f.before = make(map[item.Key]item.Item), make(map[item.Key]item.Item)
		f.sorted = make(map[string]map[string]bool)
	}
	if after == nil {
		delete(f.items, k)
		if delete(f.sorted[k.PK], k.SK); len(f.sorted[k.PK]) == 0 {
			delete(f.sorted, k.PK)
		}
		return
	}
	f.items[k] = after
	if f.sorted[k.PK] == nil {
		f.sorted[k.PK] = make(map[string]bool)
	}
	f.sorted[k.PK][k.SK] = true
}

// replayed reports whether the transaction was performed in the last ten minutes. The same token
// with other writes is an error.
func (f *facts) replayed(id string, now int64, writes []item.Write) (bool, error) {
	t, ok := f.tokens[id]
	if !ok || now-t.at > tokenLife.Milliseconds() {
		return false, nil
	}
	if !reflect.DeepEqual(item.TransactInput("t", "t", t.writes), item.TransactInput("t", "t", writes)) {
		err := fmt.Errorf("token %q was used for another transaction", id)
		return false, &store.Failure{Kind: store.Unavailable, Op: string(TransactWriteItems), Err: err}
	}
	return true, nil
}
