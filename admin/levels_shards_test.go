package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// What all shards of a bucket hold of rpm, in tokens.
func (w *world) held(shards int) (n int64) {
	for k := range shards {
		b := w.bucket("acme", "gpt", k)
		n += b.State.Slots[b.State.Index("rpm")].Tokens
	}
	return n / 1000
}

// Up to 97 shards get a credit in one transaction, with its event and its id. With more, what fails
// after the first transaction is never told as if nothing was done.
func TestCreditOfManyShards(t *testing.T) {
	for doublings, want := range map[int]error{6: limiter.ErrUnavailable, 7: limiter.ErrUnknown} {
		w, shards := newWorld(t), 1<<doublings
		w.set(Scope{Resource: "gpt"}, limiter.Quota("rpm", 640_000, limiter.Monthly(1, "")))
		w.split("acme", "gpt", doublings)
		before := w.held(shards)
		ns, err := w.ns.Once("invoice-1")
		w.must(err)
		calls := 0
		w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.TransactWriteItems {
				if calls++; calls > 1 || doublings == 6 {
					return false, memdynamo.Fail(store.Unavailable)
				}
			}
			return true, nil
		})
		_, err = ns.Credit(t.Context(), "acme", "gpt", limiter.Costs{"rpm": 64_000})
		w.db.SetHook(nil)
		w.wants(err, want)
		if got := w.held(shards) - before; (got == 0) != (doublings == 6) {
			t.Errorf("%d shards: %d tokens were given, and the error is %v", shards, got, err)
		}
		if doublings > 6 {
			continue
		}
		added, err := ns.Credit(t.Context(), "acme", "gpt", limiter.Costs{"rpm": 64_000})
		if w.must(err); added["rpm"] != 64_000 || w.held(shards)-before != 64_000 {
			t.Errorf("%v added, really %d", added, w.held(shards)-before)
		}
	}
}
