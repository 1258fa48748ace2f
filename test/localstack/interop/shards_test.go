//go:build interop

package interop

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// doubleTo makes Python double a bucket. It does when it finds an empty write meter on shard 0,
// which it chooses at random. 0.17.0 does only if the meter cannot have refilled since, so the
// meter is emptied a second ahead.
func (w *world) doubleTo(p *python, entity string, shards int) {
	w.Helper()
	for try := 0; w.bucket(entity, "api").State.Shards < shards; try++ {
		if try > 100*shards {
			w.Fatalf("Python does not double the bucket to %d shards", shards)
		}
		w.meter(entity, 0)
		if w.release != older {
			b := w.bucket(entity, "api")
			b.State.RF += 1000
			w.write(item.Put{Item: b.Item()})
		}
		p.take(entity, "api", limiter.Costs{"rpm": 0})
	}
}

// Without our aggregator, and with hardly any load, Python 0.10.3 doubles a bucket by itself once
// its fast path has used up the write meter, which it never refills. 0.17.0 refills it.
func TestPythonDoublesAlone(t *testing.T) {
	onBothEngines(t, func(w *world) {
		p := w.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 1_000_000))})
		p.take("acme", "api", limiter.Costs{"rpm": 1})
		w.meter("acme", 10)
		for range 60 {
			p.take("acme", "api", limiter.Costs{"rpm": 1})
		}
		n := w.bucket("acme", "api").State.Shards
		w.Logf("interop: Python %s alone: %d shards after 60 acquires with 10 writes left on the meter", w.release, n)
		check.Equal(w, n > 1, w.release == older, "the bucket has %d shards", n)
	})
}

// Python doubled a bucket to more shards than the limit has tokens, so no share holds a token. Our
// client merges them by itself. After 0.10.3 nothing is lost: all tokens can be taken, one by one
// or with one request, and no more. 0.17.0 has cut shard 0 to its share, so the rest comes back by
// refill.
func TestBucketsThatPythonDoubledAreMended(t *testing.T) {
	onBothEngines(t, func(w *world) {
		limit := limiter.PerHour("rpm", 10)
		if w.release != older {
			limit = limiter.PerSecond("rpm", 10)
		}
		p := w.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(limit)})
		for _, cost := range []int64{1, 10} {
			entity := fmt.Sprint("cost-", cost)
			p.take(entity, "api", limiter.Costs{"rpm": 0})
			w.doubleTo(p, entity, 32)
			l, from, granted := w.open(), time.Now(), int64(0)
			for time.Since(from) < time.Minute {
				_, err := l.Acquire(w.Context(), limiter.Request{
					Entity: entity, Resource: "api", Costs: limiter.Costs{"rpm": cost},
				})
				denied, ok := errors.AsType[*limiter.LimitError](err)
				if err != nil && !ok {
					w.Fatalf("cost %d: %v", cost, err)
				}
				if err == nil {
					granted += cost
				} else {
					time.Sleep(min(denied.RetryAfter, 100*time.Millisecond))
				}
				if granted >= 10 && (err != nil || w.release != older) {
					break
				}
			}
			n := w.bucket(entity, "api").State.Shards
			w.Logf("interop: 32 shards by Python %s, requests of %d: %d tokens in %.1f s, %d shards left", w.release,
				cost, granted, time.Since(from).Seconds(), n)
			if granted != 10 || n >= 32 {
				w.Errorf("cost %d: %d tokens granted, want 10; %d shards", cost, granted, n)
			}
		}
	})
}

// Both clients load buckets that Python has doubled to 1 to 8 shards, with our aggregator on the
// table. On one shard, no window exceeds the limit. On several, the bound is a shard 0 that holds
// and refills by the whole limit, together with the shares of the others, as Python 0.10.3 does.
// 0.17.0 uses shares, and once at the doubling adds what shard 0 holds above its own.
func TestMixedLoadOnShards(t *testing.T) {
	const seconds = 10 * time.Second
	limit := limiter.PerSecond("rpm", 20).WithCapacity(80)
	deployed(t, func(d *deployment) {
		l, p := d.open(), d.world.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(limit)})
		loads := map[int]*load{}
		var wg sync.WaitGroup
		counts := []int{1, 2, 4, 8}
		for _, shards := range counts {
			entity := fmt.Sprint("shards-", shards)
			d.take(l, entity, "api", limiter.Costs{"rpm": 0})
			d.doubleTo(p, entity, shards)
		}
		d.rest()
		for _, shards := range counts {
			more := 1 - 1/float64(shards) // share of the limit that the other shards add
			bound := limit
			bound.Capacity += int64(more * float64(limit.Capacity))
			if d.release == older {
				bound.Refill += int64(more * float64(limit.Refill))
			}
			o := newLoad(fmt.Sprint("shards-", shards), bound)
			loads[shards] = o
			wg.Go(func() {
				check.NoError(d, o.python(p, 3, seconds))
			})
			wg.Go(func() { o.ours(d.Context(), l, 3, seconds) })
		}
		wg.Wait()
		for _, shards := range counts {
			o := loads[shards]
			_, excess, said := o.became(d.T)
			d.Logf("interop: mixed load, Python %s, %d shards by Python, beside its bound: %s", d.release, shards, said)
			if excess > 100 {
				d.Errorf("%d shards: %d thousandths of a token more than the bound in some window", shards, excess)
			}
		}
	})
}

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
			d.Errorf("after 150 acquires by Python the bucket has %d shards and a meter of %d, want 1 and at least "+
				"half of 1000", n, left)
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
