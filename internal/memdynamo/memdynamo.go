package memdynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// DB is a table in memory. The zero DB is empty and ready for use, uses the system's clock and
// injects no errors. It is safe for concurrent use and must not be copied. Returned items are
// copies, but share their values, which must not be modified.
type DB struct {
	// Now is the clock for change records and transaction tokens, in epoch milliseconds; nil is the
	// system's clock. Set it before the first call.
	Now func() int64
	// Hook decides the outcome of each call; nil lets all pass. Set it before the first call, or
	// with SetHook at any time.
	Hook Hook
	// PageSize is the greatest number of items in a query response; 0: as many as fit. Set it
	// before the first call.
	PageSize int
	// ProjectAll makes every index hold whole items. Set it before the first
	// call.
	ProjectAll bool
	// Lags decides whether an eventually consistent read returns an item as it was before its last
	// write; nil: never. Set it before the first call. It must not call the table.
	Lags func(item.Key) bool

	mu    sync.Mutex
	facts facts // accessed only through lock
}

// lock locks the table. The caller unlocks mu.
func (db *DB) lock() *facts {
	db.mu.Lock()
	return &db.facts
}

var _ store.Store = (*DB)(nil)

// New returns an empty table whose clock is now; nil is the system's clock.
func New(now func() int64) *DB { return &DB{Now: now} }

// SetHook replaces the hook for the calls that follow.
func (db *DB) SetHook(h Hook) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.Hook = h
}

// SetSerialHook replaces the hook by one that is called for one call at a time, so it may count in
// plain variables while several goroutines make calls. It must not block, and may call this table
// only through [DB.Bare].
func (db *DB) SetSerialHook(h Hook) {
	var mu sync.Mutex
	db.SetHook(func(op Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return h(op)
	})
}

func (db *DB) now() int64 {
	if db.Now != nil {
		return db.Now()
	}
	return time.Now().UnixMilli()
}

// Bare returns the same table without the hook, so that a hook can read and change it.
func (db *DB) Bare() store.Store { return bare{db} }

type bare struct{ db *DB }

func (b bare) Write(ctx context.Context, w item.Write) (item.Item, error) {
	return b.db.write(w)
}

func (b bare) Transact(ctx context.Context, token string, writes []item.Write) error {
	return b.db.transact(token, writes)
}

func (b bare) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	return b.db.read(consistent, keys)
}

// Write implements [store.Store].
func (db *DB) Write(ctx context.Context, w item.Write) (item.Item, error) {
	return call(ctx, db, Op{Name: opName(w), Writes: []item.Write{w}},
		func() (item.Item, error) { return db.write(w) })
}

// Transact implements [store.Store].
func (db *DB) Transact(ctx context.Context, token string, writes []item.Write) error {
	_, err := call(ctx, db, Op{Name: TransactWriteItems, Token: token, Writes: writes},
		func() (any, error) { return nil, db.transact(token, writes) })
	return err
}

// Read implements [store.Store]. It is always consistent.
func (db *DB) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return call(ctx, db, Op{Name: BatchGetItem, Keys: keys, Consistent: consistent},
		func() ([]item.Item, error) { return db.read(consistent, keys) })
}

func opName(w item.Write) OpName {
	switch w.(type) {
	case item.Put:
		return PutItem
	case item.Delete:
		return DeleteItem
	}
	return UpdateItem
}

func (db *DB) write(w item.Write) (item.Item, error) {
	op := opName(w)
	if _, ok := w.(item.Check); ok {
		return nil, refuse("Write", fmt.Errorf("%T stands in transactions only", w))
	}
	f := db.lock()
	defer db.mu.Unlock()
	f.stats.count(op)
	before := f.items[w.Target()]
	after, held, err := w.Apply(before)
	if err != nil {
		return nil, refuse(op, err)
	}
	if !held {
		f.stats.WriteUnits += itemtest.WriteUnits(before, nil)
		return nil, &store.Refused{Old: maps.Clone(before)}
	}
	after = itemtest.Canonical(after)
	f.stats.WriteUnits += itemtest.WriteUnits(before, after)
	f.put(w.Target(), after, db.now(), false)
	return maps.Clone(after), nil
}

func (db *DB) read(consistent bool, keys []item.Key) ([]item.Item, error) {
	f := db.lock()
	defer db.mu.Unlock()
	f.stats.count(BatchGetItem)
	unique := make(map[item.Key]bool, len(keys))
	for _, k := range keys {
		unique[k] = true
		if err := item.Validate(item.Delete{Key: k}); err != nil {
			return nil, refuse(BatchGetItem, err)
		}
	}
	if len(unique) > item.MaxReadKeys {
		return nil, refuse(BatchGetItem, fmt.Errorf("%d keys, at most %d are accepted", len(unique), item.MaxReadKeys))
	}
	out := make([]item.Item, len(keys))
	for i, k := range keys {
		out[i] = maps.Clone(f.items[k])
		if !consistent && db.Lags != nil && db.Lags(k) {
			out[i] = maps.Clone(f.before[k])
		}
		if unique[k] {
			delete(unique, k)
			f.stats.ReadUnits += readUnits(item.Size(out[i]), consistent)
		}
	}
	return out, nil
}

// readUnits returns half a unit per started 4 KB, or a whole one if consistent.
func readUnits(size int, consistent bool) float64 {
	units := float64(max(1, (size+4095)/4096))
	if !consistent {
		units /= 2
	}
	return units
}

func (db *DB) transact(id string, writes []item.Write) error {
	if err := itemtest.ValidateTransaction(id, writes); err != nil {
		return refuse(TransactWriteItems, err)
	}
	f := db.lock()
	defer db.mu.Unlock()
	f.stats.count(TransactWriteItems)
	if done, err := f.replayed(id, db.now(), writes); done || err != nil {
		return err
	}
	after := make([]item.Item, len(writes))
	reasons := make([]store.Reason, len(writes))
	refused, units := false, 0
	var invalid error
	for i, w := range writes {
		before := f.items[w.Target()]
		next, held, err := w.Apply(before)
		if err != nil {
			invalid = errors.Join(invalid, err)
			continue
		}
		if !held {
			reasons[i] = store.Reason{Refused: true, Old: maps.Clone(before)}
			refused = true
		}
		after[i] = itemtest.Canonical(next)
		units += 2 * itemtest.WriteUnits(before, next)
	}
	f.stats.WriteUnits += units
	switch {
	case refused:
		return &store.Canceled{Reasons: reasons}
	case invalid != nil:
		return refuse(TransactWriteItems, invalid)
	}
	for i, w := range writes {
		f.put(w.Target(), after[i], db.now(), false)
	}
	if f.tokens == nil {
		f.tokens = make(map[string]token)
	}
	f.tokens[id] = token{at: db.now(), writes: slices.Clone(writes)}
	return nil
}

// refuse returns the failure of a call that DynamoDB would not perform: it is invalid, or the
// caller has left.
func refuse(op OpName, err error) error {
	kind := store.Setup
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		kind = store.Unavailable
	}
	return &store.Failure{Kind: kind, Op: string(op), Err: err}
}
