package limiter

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A probe tries every call that the request needs: the configuration of all levels, the write, and where there
// is no bucket the read of its shard 1. While one of them fails nobody is let through. It takes nothing.
func TestAProbeTriesWhatTheRequestNeeds(t *testing.T) {
	reads := func(key item.Key) func(memdb.Op) bool {
		return func(op memdb.Op) bool { return op.Name == memdb.BatchGetItem && slices.Contains(op.Keys, key) }
	}
	for _, there := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, l := family(t, 100, Options{ConfigTTL: -1, Timeout: 2 * time.Second})
			if there {
				must(t, w.process(Options{}), stored(Costs{"rpm": 1}))
			}
			req := stored(Costs{"rpm": 1})
			w.breaks(l, req, outages["lost"])
			before := w.db.Snapshot()
			for _, c := range []struct {
				name  string
				fails func(memdb.Op) bool
				calls bool // it is made
			}{
				{"the configuration", reads(table.EntityKey(l.namespace, acme)), true},
				{"that of the parent", reads(table.EntityKey(l.namespace, "org")), true},
				{"the write", isWrite, true},
				{"the read before a bucket is created", reads(table.BucketKey(l.namespace, acme, gpt, 1)), !there},
			} {
				made := false
				w.db.SetHook(onEvery(c.fails, func(op memdb.Op) (bool, error) {
					made = true
					if !isWrite(op) && slices.Contains(op.Keys, table.BucketKey(l.namespace, acme, gpt, 1)) && !op.Consistent {
						t.Errorf("%s: it is not read consistently", c.name)
					}
					return false, memdb.Fail(store.Unavailable)
				}))
				if !c.calls {
					continue
				}
				w.pass(probesEvery)
				if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrUnavailable) || !l.breaker.open() || !made {
					t.Errorf("there is a bucket %v, %s fails: %v, open %v", there, c.name, err, l.breaker.open())
				}
			}
			w.sameTable(before)
			if !there {
				w.db.SetHook(nil)
			} // else what still fails is not needed
			w.pass(probesEvery)
			must(t, l, req)
		})
	}
}
