//go:build interop

package interop

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A settlement of Python 0.10.3 leaves an incomplete item of a deleted bucket. Our client completes
// it: Python can use, find and delete the bucket, and the settled tokens are missing from its
// level. 0.17.0 leaves nothing, like ours.
func TestMendedBucketsAreWhole(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 100))})
		p.call(nil, "create_entity", kv{"entity_id": "acme"})
		lease := p.acquire("acme", "api", limiter.Costs{"rpm": 10})
		w.write(item.Delete{Key: layout.BucketKey(w.ns, "acme", "api", 0)})
		lease.adjust(limiter.Costs{"rpm": 5})
		lease.commit()
		left := w.item(layout.BucketKey(w.ns, "acme", "api", 0))
		if w.release == older {
			if _, err := p.tryAcquire("acme", "api", limiter.Costs{"rpm": 1}, nil); err == nil || err.denied() {
				w.Errorf("Python acquires from what is left: %v, want it to fail", err)
			}
		} else if left != nil {
			w.Errorf("a settlement has brought a deleted bucket back: %v", left)
		}

		w.take(l, "acme", "api", limiter.Costs{"rpm": 1})
		w.python().take("acme", "api", limiter.Costs{"rpm": 1})
		if got := levelsOf(w.bucket("acme", "api"))["rpm"]; got < 93_000 || got > 98_000 {
			w.Errorf("the level is %d after 2 of 100 were taken, and 5 settled before", got)
		}
		var buckets []any
		p.repository(&buckets, "get_buckets", kv{"entity_id": "acme"})
		check.Equal(w, len(buckets), 1, "Python finds buckets of the entity")
		p.call(nil, "delete_entity", kv{"entity_id": "acme"})
		if _, ok := w.shard("acme", "api", 0); ok {
			w.Error("Python does not delete the bucket with its entity")
		}
	})
}
