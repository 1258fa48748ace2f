//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// age makes a bucket expire, as if it had been idle for its lifetime.
func (w *world) age(entity, resource string, by time.Duration) {
	w.Helper()
	b := w.bucket(entity, resource)
	if b.TTL == 0 {
		w.Fatalf("the bucket of %s/%s never expires", entity, resource)
	}
	b.State.RF -= by.Milliseconds()
	b.TTL -= int64(by / time.Second)
	w.write(item.Put{Item: b.Item()})
}

// An expired bucket that still exists is revived, full, by either client for both.
func TestExpiredBucketsAreRevived(t *testing.T) {
	limit := limiter.PerHour("rpm", 60)
	one := limiter.Costs{"rpm": 1}
	onBothEngines(t, func(w *world) {
		l, p := w.open(func(o *limiter.Options) { o.DenyFor = -1 }), w.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(limit)})
		for _, first := range []string{"Python", "Go"} {
			w.take(l, first, "api", limiter.Costs{"rpm": 59})
			p.take(first, "api", one)
			w.age(first, "api", 100*time.Hour)
			from := time.Now().Unix()
			p = w.python() // 0.17.0 uses the last state it saw for a second
			if first == "Python" {
				p.take(first, "api", limiter.Costs{"rpm": 30})
				w.take(l, first, "api", limiter.Costs{"rpm": 30})
			} else {
				w.take(l, first, "api", limiter.Costs{"rpm": 30})
				p.take(first, "api", limiter.Costs{"rpm": 30})
			}
			w.denied(l, first, "api", limiter.Costs{"rpm": 20})
			if b := w.bucket(first, "api"); b.TTL < from+7*3600-20 {
				w.Errorf("%s first: the bucket expires in %d s, want 7 h", first, b.TTL-from)
			}
		}
	})
}

// A deleted bucket starts again for both clients. Our open leases are settled without changing the
// new bucket.
func TestDeletedBucketsStartAgain(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 100))})
		p.call(nil, "create_entity", kv{"entity_id": "acme"})
		p.take("acme", "api", limiter.Costs{"rpm": 10})
		lease := w.acquire(l, limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 10}})
		p.call(nil, "delete_entity", kv{"entity_id": "acme"})
		if _, ok := w.shard("acme", "api", 0); ok {
			w.Fatal("Python has not deleted the bucket that both have used")
		}
		check.Must(w, lease.Settle(limiter.Costs{"rpm": 15}))
		check.Must(w, lease.Commit(w.Context()))
		if _, ok := w.shard("acme", "api", 0); ok {
			w.Fatal("a settlement of ours has brought a deleted bucket back")
		}
		w.take(l, "acme", "api", limiter.Costs{"rpm": 1})
		p.take("acme", "api", limiter.Costs{"rpm": 1})
		w.wantLevels("anew", "acme", "api", levels{"rpm": 98_000})
	})
}

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
				w.Errorf("Python acquires the remaining tokens: %v, want an error", err)
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
