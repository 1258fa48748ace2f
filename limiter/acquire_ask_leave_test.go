package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Callers that leave while their write is under way lose nothing: of all that 64 callers with deadlines of
// 1 to 20 ms have spent at 5 ms a write, at most 1 % is in no lease. Each has a bucket of its own, or all
// share one; of one shard or of four that pay together; with a parent; and waiting for tokens.
func TestCallersThatLeaveLoseNothing(t *testing.T) {
	for _, c := range []departures{
		{name: "alone", buckets: 64, cost: 1},
		{name: "in groups", buckets: 1, cost: 1},
		{name: "from several shards", buckets: 64, shards: 4, cost: 30},
		{name: "with a parent", buckets: 16, cost: 1, cascade: true},
		{name: "with a parent, first use", buckets: 400, cost: 1, cascade: true},
		{name: "waiting", buckets: 16, cost: 1, acquire: (*Limiter).Wait},
	} {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

// departures are callers of which many leave early.
type departures struct {
	name            string
	buckets, shards int
	cost            int64
	cascade         bool
	acquire         func(*Limiter, context.Context, Request) (*Lease, error)
}

func (c departures) run(t *testing.T) {
	const callers, each = 64, 25
	w := newWorld(t)
	l := w.process(Options{})
	limit := PerDay("rpd", 1_000_000)
	if c.shards > 1 { // a share is less than a cost
		limit = PerSecond("rpd", 100)
	}
	w.configure(l, "", "", limit)
	name := func(i int) string { return fmt.Sprintf("tenant-%d", i%c.buckets) }
	for i := range c.buckets {
		if c.cascade {
			w.entity(l, name(i), "org")
		}
		if c.shards > 1 {
			must(t, l, Request{Entity: name(i), Resource: gpt, Costs: Costs{"rpd": 0}})
			w.splitOf(l, name(i), c.shards)
		}
	}
	w.entity(l, "org", "")
	w.db.SetHook(func(memdynamo.Op) (bool, error) { time.Sleep(5 * time.Millisecond); return true, nil })
	var granted atomic.Int64
	var unknown, others atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for n := range each {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1000+r.IntN(19_000))*time.Microsecond)
				acquire := (*Limiter).Acquire
				if c.acquire != nil {
					acquire = c.acquire
				}
				req := Request{Entity: name(i + n*callers), Resource: gpt, Costs: Costs{"rpd": c.cost}}
				switch _, err := acquire(l, ctx, req); kindName(err) {
				case "granted":
					granted.Add(c.cost)
				case "unknown":
					unknown.Add(1)
				default:
					others.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	time.Sleep(time.Minute) // what is under way ends
	used, org := int64(0), int64(0)
	for _, it := range w.db.Items() {
		b, err := table.DecodeShard(it)
		if i := b.State.Index("rpd"); err == nil && i >= 0 {
			if b.Entity == "org" {
				org += b.State.Slots[i].Used / bucket.Milli
			} else {
				used += b.State.Slots[i].Used / bucket.Milli
			}
		}
	}
	t.Logf("%d granted, %d unknown, %d others, %d used", granted.Load(), unknown.Load(), others.Load(), used)
	if unknown.Load() == 0 || granted.Load() == 0 {
		t.Error("the test tests nothing")
	}
	for _, sum := range []int64{used, org} {
		if lost := sum - granted.Load(); (sum == used || c.cascade) && (lost < 0 || lost*100 > sum) {
			t.Errorf("of %d spent %d belong to nobody", sum, lost)
		}
	}
}
