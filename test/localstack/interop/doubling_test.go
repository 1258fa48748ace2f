//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// meter sets the write meter of a bucket, as many writes would.
func (w *world) meter(entity string, tokens int64) {
	w.Helper()
	b := w.bucket(entity, "api")
	for i := range b.State.Slots {
		if b.State.Slots[i].Name == bucket.WCU {
			b.State.Slots[i].Tokens = tokens * bucket.Milli
		}
	}
	b.State.RF = time.Now().UnixMilli()
	w.write(item.Put{Item: b.Item()})
}

func (w *world) meterOf(entity string) int64 {
	w.Helper()
	for _, sl := range w.bucket(entity, "api").State.Slots {
		if sl.Name == bucket.WCU {
			return sl.Tokens / bucket.Milli
		}
	}
	w.Fatal("the bucket has no write meter")
	return 0
}

// Python's fast path charges the write meter but never refills it, and doubles the shards when it
// is empty. With our aggregator on the table it is never empty, whatever the rate of writes.
func TestOurAggregatorKeepsPythonFromDoubling(t *testing.T) {
	deployed(t, func(d *deployment) {
		d.open()
		p := d.world.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 1_000_000))})
		p.take("acme", "api", limiter.Costs{"rpm": 1})
		d.meter("acme", 150)
		for range 6 {
			for range 25 { // the most that a batch holds
				p.take("acme", "api", limiter.Costs{"rpm": 1})
			}
			d.rest()
		}
		if n, left := d.bucket("acme", "api").State.Shards, d.meterOf("acme"); n != 1 || left < 500 {
			d.Errorf("after 150 acquires by Python the bucket has %d shards and a meter of %d, want 1 and at least half of "+
				"1000", n, left)
		}
	})
}

// With MaxShards of one in the aggregator and in all of our clients, as documented for a mixed
// fleet, a bucket is never split.
func TestMaxShardsOfOneKeepsBucketsWhole(t *testing.T) {
	deployed(t, func(d *deployment) {
		l := d.open(func(o *limiter.Options) { o.MaxShards = 1 })
		p := d.world.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 1_000_000))})
		d.take(l, "acme", "api", limiter.Costs{"rpm": 1})
		for range 5 {
			d.meter("acme", 0)
			for range 5 {
				d.take(l, "acme", "api", limiter.Costs{"rpm": 1})
			}
			d.rest()
			for range 5 {
				p.take("acme", "api", limiter.Costs{"rpm": 1})
			}
			d.rest()
		}
		check.Equal(d, d.bucket("acme", "api").State.Shards, 1, "the bucket has shards")
		d.wantLevels("at rest", "acme", "api", levels{"rpm": (1_000_000 - 51) * bucket.Milli})
	}, "MAX_SHARDS=1")
}
