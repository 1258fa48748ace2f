package table_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shardsWorld is a bucket with a quota that splits and merges while it is charged, around
// edges. What a shard grants counts for the period that its refill instant is in.
type shardsWorld struct {
	r       *rand.Rand
	now     int64
	items   map[item.Key]item.Item
	granted map[int64]int64
	images  map[item.Key]table.Shard // stale ones
	resized int
}

func (w *shardsWorld) shard(k item.Key) (table.Shard, bool) {
	it := w.items[k]
	if it == nil {
		return table.Shard{}, false
	}
	b, err := table.DecodeShard(it)
	return b, err == nil
}

func (w *shardsWorld) key(n int) item.Key { return layout.BucketKey("ns", "e", "r", n) }

// write carries a transaction out: all or nothing.
func (w *shardsWorld) write(writes ...item.Write) (bool, error) {
	after := map[item.Key]item.Item{}
	for _, one := range writes {
		it, held, err := one.Apply(w.items[one.Target()])
		if err != nil || !held {
			return false, err
		}
		after[one.Target()] = it
	}
	for k, it := range after {
		w.items[k] = it
	}
	return true, nil
}

func (w *shardsWorld) step() error {
	switch w.r.IntN(10) {
	case 0, 1:
		w.now += w.r.Int64N(900)
	case 2:
		w.now += w.r.Int64N(40_000)
	case 3:
		w.now = (w.now/periodMs+1)*periodMs - 1500 + w.r.Int64N(3000)
	}
	now := w.now + w.r.Int64N(2001) - 1000
	zero, _ := w.shard(w.key(0))
	n := zero.State.Count()
	k := w.key(w.r.IntN(n))
	b, ok := w.shard(k)
	if !ok {
		return nil // not split off yet
	}
	if old, seen := w.images[k]; seen && w.r.IntN(3) == 0 {
		b = old
	} else if w.r.IntN(2) == 0 {
		w.images[k] = b
	}
	switch w.r.IntN(12) {
	case 0:
		if n < 4 && w.items[w.key(1)] == nil || n == 2 && b.State.Count() == 2 && w.items[w.key(b.State.Shard+2)] == nil {
			ok, err := w.write(table.Split(b, now)...)
			if ok {
				w.resized++
			}
			return err
		}
		return nil
	case 1:
		if n == 1 {
			return nil
		}
		one, okOne := w.shard(w.key(n/2 + w.r.IntN(n/2)))
		if !okOne {
			return nil
		}
		keep, okKeep := w.shard(w.key(one.State.Shard - n/2))
		if okKeep && keep.State.Count() == n && one.State.Count() == n {
			ok, err := w.write(table.Merge(keep, one, n/2, now)...)
			if ok {
				w.resized++
			}
			return err
		}
		return nil
	}
	return w.charge(b, now)
}

func (w *shardsWorld) charge(b table.Shard, now int64) error {
	cost := w.r.Int64N(4) * bucket.Milli
	plan := table.Charge{Image: b, Costs: table.Costs(worldLimits, cost, bucket.Milli), Now: now, Slack: 20}.Plan()
	if !plan.Verdict.Granted {
		return nil
	}
	held, err := w.write(plan.Update)
	if err != nil || !held {
		return err
	}
	after, _ := w.shard(b.Key())
	period := after.State.RF / periodMs
	if start := period * periodMs; w.now < start {
		return fmt.Errorf("at %d the period of %d was opened", w.now, start)
	}
	if w.granted[period] += cost; w.granted[period] > quotaOf {
		return fmt.Errorf("%d granted in the period of %d", w.granted[period], period*periodMs)
	}
	return nil
}

// whole checks that what the shards hold and what was granted add up to the quota, once
// all of them are in one period.
func (w *shardsWorld) whole() error {
	zero, _ := w.shard(w.key(0))
	sum, period := int64(0), zero.State.RF/periodMs
	for n := range 4 {
		b, ok := w.shard(w.key(n))
		if !ok {
			continue
		}
		if b.State.RF/periodMs != period {
			return nil
		}
		sum += b.State.Slots[b.State.Index("q")].Tokens
	}
	if sum+w.granted[period] != quotaOf {
		return fmt.Errorf("%d granted and %d left of %d", w.granted[period], sum, int64(quotaOf))
	}
	return nil
}

// Shares of a quota add up: what shards grant in a period is no more than the quota, and
// what they have left is the rest, through splits, merges and edges.
func TestSharesOfAQuotaAddUp(t *testing.T) {
	resized, periods := 0, 0
	for seed := range uint64(30) {
		w := &shardsWorld{r: rand.New(rand.NewPCG(5, seed)), now: 1_800_000_000_000, items: map[item.Key]item.Item{},
			granted: map[int64]int64{}, images: map[item.Key]table.Shard{}}
		put, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r",
			Costs: table.Costs(worldLimits, 0, 0), Now: w.now, Draw: seed})
		w.items[b.Key()] = put.Item
		for range 800 {
			err := w.step()
			if err == nil {
				err = w.whole()
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		resized, periods = resized+w.resized, periods+len(w.granted)
	}
	if resized < 300 || periods < 600 {
		t.Errorf("%d splits and merges, %d periods: too few", resized, periods)
	}
	t.Logf("%d splits and merges, %d periods", resized, periods)
}
