package streams

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A write takes a unit per 1,024 bytes of its item, and each write of a transaction takes two, even
// if refused or unanswered. A throttled write takes none.
func TestWriteUnits(t *testing.T) {
	put := func(bytes int) item.Put {
		it := item.Key{PK: "p", SK: "s"}.Item()
		it["a"] = item.B(nil)
		it["a"] = item.B(make([]byte, bytes-item.Size(it)))
		return item.Put{Item: it}
	}
	for _, c := range []struct {
		name    string
		bytes   int
		fault   error // not applied
		applied error // applied, but the answer is lost
		want    int64 // of a write
		two     int64 // of a transaction of two
	}{
		{"small", 100, nil, nil, 1, 4},
		{"a unit", 1024, nil, nil, 1, 4},
		{"a little more", 1025, nil, nil, 2, 4},
		{"throttled", 1025, memdynamo.Fail(store.Throttled), nil, 0, 0},
		{"in conflict", 1025, memdynamo.Fail(store.Conflict), nil, 0, 0},
		{"without an answer", 1025, nil, memdynamo.Fail(store.Unknown), 2, 4},
	} {
		r := newRig(t)
		r.db.SetHook(func(memdynamo.Op) (bool, error) {
			if c.fault != nil {
				return false, c.fault
			}
			return true, c.applied
		})
		a, m := r.agg.metered()
		_, err := a.store.Write(t.Context(), put(c.bytes))
		if got := m.units.Load(); got != c.want || (err != nil) != (c.fault != nil || c.applied != nil) {
			t.Errorf("%s: %d units, %v, want %d", c.name, got, err, c.want)
		}
		m.units.Store(0)
		second := item.Update{Key: item.Key{PK: "p", SK: "t"}, Set: []item.Attr{{Name: "a", Value: item.N(1)}}}
		_ = a.store.Transact(t.Context(), "token", []item.Write{put(c.bytes), second})
		check.Equal(t, m.units.Load(), c.two, "%s: a transaction takes units", c.name)
	}
}

// A write waits for one unit. If it takes more, the next write waits for them. A transaction waits
// for its own units too.
func TestWritesWaitForTheUnitsOfEarlierOnes(t *testing.T) {
	for bytes, units := range map[int]int64{100: 1, 1025: 2, 5000: 5} {
		r := newRig(t)
		r.agg.pace = &pace{each: time.Hour}
		a, _ := r.agg.metered()
		it := item.Key{PK: "p", SK: "s"}.Item()
		it["a"] = item.B(make([]byte, bytes-item.Size(it)-1))
		before := time.Now()
		check.Must(t, check.Err(a.store.Write(t.Context(), item.Put{Item: it})))
		waits := r.agg.pace.next.Sub(before).Round(time.Hour)
		check.Equal(t, waits, time.Duration(units)*time.Hour, "%d bytes: the next one waits", bytes)
		r.agg.pace.next = time.Time{}
		before = time.Now()
		check.Must(t, a.store.Transact(t.Context(), "token", []item.Write{item.Put{Item: it}}))
		waits = r.agg.pace.next.Sub(before).Round(time.Hour)
		check.Equal(t, waits, 2*time.Hour, "%d bytes in a transaction: the next one waits", bytes)
	}
}

// A write that waits for its units ends with its invocation. Its error says that nothing was sent.
// Units that would come after the end are left to other writes.
func TestAWriteThatWaitsEndsWithItsInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{each: time.Hour}
		fails := func(ctx context.Context, cause error) {
			failed, is := errors.AsType[*store.Failure](p.wait(ctx, 1))
			if !is || failed.Kind != store.Unavailable || failed.Op != "pace" || !errors.Is(failed, cause) {
				t.Errorf("%v, want %v", failed, cause)
			}
		}
		ends, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.Must(t, p.wait(ends, 1))
		begin, next := time.Now(), p.next
		if fails(ends, context.DeadlineExceeded); time.Since(begin) > 0 || p.next != next {
			t.Errorf("after %v, next at %v, want %v", time.Since(begin), p.next, next)
		}
		ends, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		fails(ends, context.Canceled)
	})
}

// A write with a lost answer is planned again, unless it is too late.
func TestWritesAreNotPlannedAgainAfterTheEnd(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	lost := &store.Failure{Kind: store.Unknown, Op: "UpdateItem"}
	_, _, err := again(t.Context(), lost)
	check.NoError(t, err, "given up")
	_, _, err = again(over, lost)
	check.Is(t, err, lost, "after the end")
}
