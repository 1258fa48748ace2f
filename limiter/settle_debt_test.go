package limiter

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A settlement may put the bucket so deep into debt that it outlives the ttl. The
// write that takes the debt moves the ttl too: a process that dies right after it
// leaves no bucket that expires before the debt is earned.
func TestDebtSurvivesACrash(t *testing.T) {
	for _, taken := range []int64{1, 1000} {
		w := newWorld(t)
		l := w.process(Options{})
		lease := must(t, l, asks(Costs{"tpm": taken}, PerMinute("tpm", 1000)))
		if err := more(lease, Costs{"tpm": 100_000}); err != nil {
			t.Fatal(err)
		}
		w.db.SetHook(onCall(isWrite, 1, func(memdb.Op) (bool, error) { return false, memdb.Fail(store.Unavailable) }))
		if err := lease.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := w.shards(l, acme, gpt)[0]
		if full := b.State.FullAt(w.now.Load()); b.TTL*1000 < full {
			t.Errorf("%d taken: expires %d s before the debt is earned", taken, full/1000-b.TTL)
		}
	}
}
