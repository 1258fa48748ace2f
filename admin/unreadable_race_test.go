package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// What somebody else has mended meanwhile is reset like any bucket, and what it has counted stays.
func TestResetOfWhatIsMendedMeanwhile(t *testing.T) {
	key := func(w *world) item.Key { return layout.BucketKey(w.ns.ID(), "acme", "gpt-4", 0) }
	for _, begins := range []memdynamo.OpName{memdynamo.BatchGetItem, memdynamo.TransactWriteItems} {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		w.split("acme", "gpt-4", 0)
		w.spoil("acme", 0, odd["a clock of text"])
		rival, reads := w.rival(), 0
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.BatchGetItem && op.Keys[0] == key(w) {
				reads++
			}
			if reads == 2 && op.Name == begins {
				w.db.SetHook(nil)
				_, err := rival.Reset(t.Context(), "acme", "gpt-4")
				w.must(err)
				w.advance(1)
				w.take("acme", "gpt-4", limiter.Costs{"rpm": 7})
			}
			return true, nil
		})
		_, err := w.ns.Reset(t.Context(), "acme", "gpt-4")
		w.db.SetHook(nil)
		w.must(err)
		if w.db.Item(key(w)) == nil {
			t.Errorf("before %v: the bucket that was made anew is gone, and its usage with it", begins)
			continue
		}
		b := w.bucket("acme", "gpt-4", 0)
		sl := b.State.Slots[b.State.Index("rpm")]
		if sl.Tokens != 10_000 || sl.Spent() != 7_000 {
			t.Errorf("before %v: level %d, spent %d", begins, sl.Tokens, sl.Spent())
		}
		if e := w.events(Scope{Entity: "acme"}); len(e) != 2 {
			t.Errorf("before %v: %d events", begins, len(e))
		}
	}
}

// A shard that is split while its bucket is removed leaves nothing behind.
func TestResetOfWhatIsSplitMeanwhile(t *testing.T) {
	for _, fault := range []store.Kind{0, store.Throttled, store.Unknown} {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		w.split("acme", "gpt-4", 1)
		w.spoil("acme", 1, odd["a clock of text"])
		last := layout.BucketKey(w.ns.ID(), "acme", "gpt-4", 0)
		w.meanwhile(last, func() {
			w.must(w.db.Transact(t.Context(), "split", table.Split(w.bucket("acme", "gpt-4", 0), w.now.Load())))
			if fault != 0 {
				w.failTransactions(fault, fault == store.Unknown, false)
			}
		})
		_, err := w.ns.Reset(t.Context(), "acme", "gpt-4")
		w.db.SetHook(nil)
		w.must(err)
		for k := range 4 {
			if w.db.Item(layout.BucketKey(w.ns.ID(), "acme", "gpt-4", k)) != nil {
				t.Errorf("fault %v: shard %d is left", fault, k)
			}
		}
		if got := w.drained(w.limiter()); got != 10 {
			t.Errorf("fault %v: %d granted afterwards, want 10", fault, got)
		}
		if e := w.events(Scope{Entity: "acme"}); len(e) != 1 {
			t.Errorf("fault %v: %d events", fault, len(e))
		}
	}
}
