package limiter

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestHangingConfigurationReadLeavesTime: while reads hang and writes do not, old
// configuration serves within the call's own time, and only one call in a while
// waits for a read at all.
func TestHangingConfigurationReadLeavesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{Timeout: 200 * time.Millisecond, ConfigTTL: time.Second})
		cfg := table.Config{Namespace: l.NamespaceID(), Resource: "gpt-4",
			Limits: []bucket.Limit{PerMinute("rpm", 100).stored()}}
		w.db.Store(cfg.Item())
		req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 1}}
		if _, err := l.Acquire(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		var reads atomic.Int64
		w.db.SetHook(func(op memdb.Op) (bool, error) {
			if op.Keys != nil {
				reads.Add(1)
				<-op.Done
				return false, errors.New("no answer")
			}
			return true, nil
		})
		w.advance(2 * time.Second)
		for range 5 {
			if _, err := l.Acquire(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		if n := reads.Load(); n != 1 {
			t.Errorf("%d reads hung, want one", n)
		}
		w.advance(2 * time.Second)
		if _, err := l.Acquire(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	})
}

// Configuration that has outlived its time is read anew by the next call, however slow the table is:
// a read is waited for as long as calls take, not for a constant time.
func TestOldConfigurationIsReadBehindASlowTable(t *testing.T) {
	for _, trip := range []time.Duration{4 * time.Millisecond, 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w, l, _ := far(t, trip, Options{ConfigTTL: time.Minute}, nil)
			store := func(capacity int64) {
				w.db.Store(table.Config{Namespace: l.NamespaceID(), Resource: gpt,
					Limits: []bucket.Limit{PerHour("rph", capacity).stored()}}.Item())
			}
			req := Request{Entity: "other", Resource: gpt, Costs: Costs{"rph": 1}}
			for capacity := int64(100); capacity <= 400; capacity += 100 {
				store(capacity)
				time.Sleep(time.Minute)
				if got := must(t, l, req).Status()[0].Capacity; got != capacity {
					t.Errorf("behind %s: goes by a capacity of %d, want %d", trip, got, capacity)
				}
			}
		})
	}
}
