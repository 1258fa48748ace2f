package memdynamo_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// calls has one call of each operation, and what a hook sees of it. A read writes nothing.
var calls = []struct {
	do    func(context.Context, *memdynamo.DB) error
	op    memdynamo.Op
	reads bool
}{
	{func(ctx context.Context, db *memdynamo.DB) error { _, err := db.Write(ctx, add(1)); return err },
		memdynamo.Op{Name: memdynamo.UpdateItem, Writes: []item.Write{add(1)}}, false},
	{func(ctx context.Context, db *memdynamo.DB) error { _, err := db.Write(ctx, put); return err },
		memdynamo.Op{Name: memdynamo.PutItem, Writes: []item.Write{put}}, false},
	{func(ctx context.Context, db *memdynamo.DB) error {
		return check.Err(db.Write(ctx, item.Delete{Key: key}))
	},
		memdynamo.Op{Name: memdynamo.DeleteItem, Writes: []item.Write{item.Delete{Key: key}}}, false},
	{func(ctx context.Context, db *memdynamo.DB) error { return db.Transact(ctx, "token", []item.Write{put}) },
		memdynamo.Op{Name: memdynamo.TransactWriteItems, Token: "token", Writes: []item.Write{put}}, false},
	{func(ctx context.Context, db *memdynamo.DB) error { _, err := db.Read(ctx, true, key); return err },
		memdynamo.Op{Name: memdynamo.BatchGetItem, Keys: []item.Key{key}, Consistent: true}, true},
	{func(ctx context.Context, db *memdynamo.DB) error { return check.Err(db.List(ctx, item.Query{PK: "a"})) },
		memdynamo.Op{Name: memdynamo.Query, Query: item.Query{PK: "a"}}, true},
	{func(ctx context.Context, db *memdynamo.DB) error { return db.Remove(ctx, key) },
		memdynamo.Op{Name: memdynamo.BatchWriteItem, Keys: []item.Key{key}}, false},
}

var put = item.Put{Item: key.Item()}

// A hook sees the request.
func TestHooksSeeTheCall(t *testing.T) {
	for _, c := range calls {
		db, seen := memdynamo.New(nil), 0
		db.SetHook(func(op memdynamo.Op) (bool, error) {
			if seen++; op.Done == nil {
				t.Errorf("%s: a blocking hook blocks forever", op.Name)
			}
			if op.Done = nil; !reflect.DeepEqual(op, c.op) {
				t.Errorf("the hook sees %+v, want %+v", op, c.op)
			}
			return true, nil
		})
		if err := c.do(t.Context(), db); err != nil || seen != 1 {
			t.Errorf("%s: %v, seen %d times", c.op.Name, err, seen)
		}
	}
}

// Every call can fail in two ways: without effect, and with effect but without an answer. The
// caller gets the hook's error, or a failure of the call with what is known. The context may end
// before the call or during it.
func TestHooksCanFailEveryCall(t *testing.T) {
	plain := errors.New("plain")
	for _, err := range []error{&store.Refused{}, &store.Canceled{}, &store.Failure{Kind: store.Conflict, Op: "mine"}} {
		for _, c := range calls {
			if got, changed := failing(t, c.do, false, err); !same(got, err) || changed {
				t.Errorf("%s: %v, want %v as it is; carried out: %v", c.op.Name, got, err, changed)
			}
		}
	}
	for _, c := range calls {
		name, known := string(c.op.Name), store.Unknown
		if c.reads {
			known = store.Unavailable
		}
		for _, want := range []struct {
			applied bool
			err     error
			kind    store.Kind
			said    string
		}{
			{false, nil, store.Unavailable, "not carried out"},
			{false, plain, store.Unavailable, "plain"},
			{true, plain, known, "answer lost: plain"},
			{false, memdynamo.Fail(store.Throttled), store.Throttled, "injected failure"},
			{true, memdynamo.Fail(store.Unknown), store.Unknown, "injected failure"},
		} {
			err, changed := failing(t, c.do, want.applied, want.err)
			f, ok := errors.AsType[*store.Failure](err)
			if !ok || f.Kind != want.kind || f.Op != name || f.Err == nil || f.Err.Error() != want.said {
				t.Errorf("%s, carried out: %v: %v, want %s: %s", name, want.applied, f, want.kind, want.said)
			}
			check.Equal(t, changed, want.applied && !c.reads, "%s, %v: carried out", name, want.err)
		}
		if err, changed := failing(t, c.do, true, nil); err != nil || changed == c.reads {
			t.Errorf("%s: %v, carried out: %v", name, err, changed)
		}
		for _, applied := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			db := counting()
			before := len(db.Changes(0))
			db.SetHook(func(op memdynamo.Op) (bool, error) { cancel(); <-op.Done; return applied, nil })
			if err := c.do(ctx, db); store.KindOf(err) != known || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, given up: %v, want %s", name, err, known)
			}
			check.Equal(t, len(db.Changes(0)) != before, applied && !c.reads, "%s, given up: carried out", name)
			if err := c.do(ctx, db); store.KindOf(err) != store.Unavailable || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, after that: %v", name, err)
			}
		}
	}
}

// counting is a table with an item that each of the calls changes.
func counting() *memdynamo.DB {
	db, it := memdynamo.New(nil), key.Item()
	it["n"] = item.N(7)
	db.Store(it)
	return db
}

// failing returns how a call with a hook ends, and whether it changed a table of one item.
func failing(
	t *testing.T, do func(context.Context, *memdynamo.DB) error, applied bool, with error,
) (err error, changed bool) {
	t.Helper()
	db := counting()
	before := len(db.Changes(0))
	db.SetHook(func(memdynamo.Op) (bool, error) { return applied, with })
	err = do(t.Context(), db)
	return err, len(db.Changes(0)) != before
}

func same(a, b error) bool { return reflect.DeepEqual(a, b) }
