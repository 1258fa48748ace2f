package memdynamo_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/storetest"
)

var key = item.Key{PK: "a", SK: "b"}

func add(n int64) item.Update {
	return item.Update{Key: key, Add: []item.Attr{{Name: "n", Value: item.N(n)}}}
}

func stored(t *testing.T, db *memdynamo.DB) item.Item {
	t.Helper()
	return db.Item(key)
}

func TestSuite(t *testing.T) {
	storetest.Run(t, nil, func(*testing.T) store.Lister { return memdynamo.New(nil) })
}

// A hook may act like another process at this moment.
func TestHooksMayInterfere(t *testing.T) {
	db := memdynamo.New(nil)
	db.SetHook(func(op memdynamo.Op) (bool, error) {
		other := db.Bare()
		check.NoError(t, check.Err(other.Write(t.Context(), add(10))))
		check.NoError(t, other.Transact(t.Context(), "token", []item.Write{add(100)}))
		if items, err := other.Read(t.Context(), true, key); err != nil || !item.Equal(items[0]["n"], item.N(110)) {
			t.Errorf("%v, %v", items, err)
		}
		return true, nil
	})
	out, err := db.Write(t.Context(), add(1))
	if err != nil || !item.Equal(out["n"], item.N(111)) {
		t.Fatalf("item %v, error %v", out, err)
	}
}

// Numbers are stored in their shortest form, as in DynamoDB.
func TestNumbersAreStoredShort(t *testing.T) {
	for _, write := range []func(*memdynamo.DB, item.Put) error{
		func(db *memdynamo.DB, w item.Put) error { _, err := db.Write(t.Context(), w); return err },
		func(db *memdynamo.DB, w item.Put) error { return db.Transact(t.Context(), "t", []item.Write{w}) },
		func(db *memdynamo.DB, w item.Put) error { db.Store(w.Item); return nil },
	} {
		db, it := memdynamo.New(nil), key.Item()
		it["n"] = &types.AttributeValueMemberN{Value: "01.50"}
		err := write(db, item.Put{Item: it})
		if n, ok := stored(t, db)["n"].(*types.AttributeValueMemberN); err != nil || !ok || n.Value != "1.5" {
			t.Errorf("%v, %v", stored(t, db), err)
		}
		if c := db.Changes(0); len(c) != 1 || c[0].Expired {
			t.Errorf("changes %+v", c)
		}
	}
}

// A call that DynamoDB would refuse fails as not set up, and says why. If the caller gave up, it
// fails as unavailable.
func TestInvalidCallsAreSetupErrors(t *testing.T) {
	db := memdynamo.New(nil)
	many := make([]item.Key, item.MaxReadKeys+1)
	for i := range many {
		many[i] = item.Key{PK: "p", SK: strconv.Itoa(i)}
	}
	_, tooMany := db.Read(t.Context(), true, many...)
	_, check := db.Write(t.Context(), item.Check{Key: key, If: item.Exists("n")})
	for _, c := range []struct {
		err      error
		op, said string
	}{
		{tooMany, "BatchGetItem", "101 keys, at most 100 are accepted"},
		{check, "Write", "item.Check stands in transactions only"},
		{db.Remove(t.Context(), item.Key{}), "BatchWriteItem", "key"},
	} {
		f, ok := errors.AsType[*store.Failure](c.err)
		if !ok || f.Kind != store.Setup || f.Op != c.op || !strings.Contains(f.Err.Error(), c.said) {
			t.Errorf("%v, want %s: %s", c.err, c.op, c.said)
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := db.Write(ctx, add(1)); store.KindOf(err) != store.Unavailable {
		t.Errorf("too late: %v", err)
	}
	if items, err := db.Read(t.Context(), true); items != nil || err != nil || db.Stats().Reads != 1 {
		t.Errorf("a read of nothing: %v, %v, %d reads", items, err, db.Stats().Reads)
	}
}

// If a transaction has a refusal and an update of the wrong type, in either order, it is refused.
func TestRefusalsWinOverTypeErrors(t *testing.T) {
	db, other := memdynamo.New(nil), item.Key{PK: "other", SK: "b"}
	db.Store(item.Item{item.AttrPK: item.S(key.PK), item.AttrSK: item.S(key.SK), "n": item.S("x")})
	refused := item.Check{Key: other, If: item.Exists(item.AttrPK)}
	for i, writes := range [][]item.Write{{refused, add(1)}, {add(1), refused}} {
		canceled, ok := errors.AsType[*store.Canceled](db.Transact(t.Context(), strconv.Itoa(i), writes))
		if !ok || !canceled.Reasons[i].Refused || canceled.Reasons[1-i].Refused {
			t.Errorf("%v: %+v", writes, canceled)
		}
	}
}

// A token is remembered for ten minutes, together with others.
func TestTokensLastTenMinutes(t *testing.T) {
	now := int64(1_000_000)
	db := memdynamo.New(func() int64 { return now })
	for _, c := range []struct {
		after int64
		token string
		want  int64
	}{{0, "one", 1}, {10, "two", 2}, {10*60*1000 - 10, "one", 2}, {1, "one", 3}, {0, "two", 3}} {
		now += c.after
		check.Must(t, db.Transact(t.Context(), c.token, []item.Write{add(1)}))
		if got := stored(t, db)["n"]; !item.Equal(got, item.N(c.want)) {
			t.Errorf("%s at %d: %v, want %d", c.token, now, got, c.want)
		}
	}
}

func TestChangesAreTheStream(t *testing.T) {
	now := int64(5)
	db := memdynamo.New(func() int64 { return now })
	write := func(w item.Write) {
		t.Helper()
		check.Must(t, check.Err(db.Write(t.Context(), w)))
		now++
	}
	write(add(1))
	write(add(0)) // no change, no record
	write(add(2))
	write(item.Delete{Key: key})
	write(item.Delete{Key: key})
	expiring := key.Item()
	expiring[layout.AttrTTL] = item.N(100)
	db.Store(expiring)
	check.Equal(t, db.Sweep(100), 0, "an item with ttl 100 was removed at 100")
	if n := db.Sweep(101); n != 1 || db.Len() != 0 {
		t.Errorf("an item with ttl 100 exists at 101")
	}
	changes := db.Changes(0)
	var got []string
	last := ""
	for _, c := range changes {
		s := "modify"
		switch {
		case c.Old == nil:
			s = "insert"
		case c.Expired:
			s = "expire"
		case c.New == nil:
			s = "remove"
		}
		got = append(got, s)
		if c.SequenceNumber() <= last {
			t.Errorf("sequence number %s follows %s", c.SequenceNumber(), last)
		}
		last = c.SequenceNumber()
	}
	if want := []string{"insert", "modify", "remove", "insert", "expire"}; !slices.Equal(got, want) {
		t.Fatalf("changes are %v, want %v", got, want)
	}
	if c := changes[1]; c.CreatedAt != 7 || !item.Equal(c.Old["n"], item.N(1)) || !item.Equal(c.New["n"], item.N(3)) {
		t.Errorf("second change is %+v", c)
	}
	if rest := db.Changes(changes[3].Seq); len(rest) != 1 || rest[0].Seq != 5 {
		t.Errorf("changes after the fourth are %v", rest)
	}
}

func TestStatsCountCallsAndUnits(t *testing.T) {
	db := memdynamo.New(nil)
	ctx := t.Context()
	db.Write(ctx, add(1))
	db.Write(ctx, item.Put{Item: key.Item(), If: item.Absent(item.AttrPK)}) // refused, but costs a unit
	db.Transact(ctx, "t", []item.Write{add(1)})
	db.Read(ctx, false, key)
	db.Read(ctx, true, key)
	want := memdynamo.Stats{Updates: 1, Puts: 1, Transactions: 1, Reads: 2, WriteUnits: 4, ReadUnits: 1.5}
	check.Equal(t, db.ResetStats(), want, "counts")
	check.Equal(t, db.Stats(), memdynamo.Stats{}, "counts after the reset")
}

func TestConcurrentAddsAllCount(t *testing.T) {
	db := memdynamo.New(nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				db.Write(t.Context(), add(1))
				db.Read(t.Context(), true, key)
				db.Items()
			}
		})
	}
	wg.Wait()
	if got := stored(t, db)["n"]; !item.Equal(got, item.N(800)) {
		t.Errorf("800 additions make %v", got)
	}
}

func TestDrainForgetsChanges(t *testing.T) {
	db := memdynamo.New(nil)
	put := func(sk string) { db.Store(item.Key{PK: "p", SK: sk}.Item()) }
	put("a")
	put("b")
	if got := db.Drain(); len(got) != 2 || got[1].Seq != 2 {
		t.Fatalf("drained %v", got)
	}
	put("c")
	if got := db.Changes(2); len(got) != 1 || got[0].Seq != 3 || len(db.Changes(3)) != 0 || len(db.Changes(0)) != 1 {
		t.Errorf("changes %v", got)
	}
	db.Delete(item.Key{PK: "p", SK: "a"})
	page, err := db.List(t.Context(), item.Query{PK: "p"})
	if err != nil || len(page.Items) != 2 || len(db.Drain()) != 2 || len(db.Drain()) != 0 {
		t.Errorf("query after a drain: %v, %v", page, err)
	}
}
