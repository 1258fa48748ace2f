package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
)

// The cost of an acquire, on limits that nobody reaches.
const (
	requests = 1
	tokens   = 350
	resource = "gpt-4"
)

var limits = []limiter.Limit{limiter.PerMinute("rpm", 20_000), limiter.PerMinute("tpm", 20_000*tokens)}

// traffic is tenants that acquire at random times, some much more often than others (Zipf 1.1),
// through a limiter on a table in memory, whose writes make the records.
type traffic struct {
	limiter *limiter.Limiter
	db      *memdynamo.DB
	rand    *rand.Rand
	tenants loadcheck.Chance
	now     int64 // epoch ms
	granted int64
	inTurn  bool // tenants acquire in turn, not at random
	records records
}

// memory is how the limiter and the aggregator know a table in memory.
type memory struct {
	admin.DynamoDB // nil: never called
	store.Lister
}

func newTraffic(ctx context.Context, tenants int, now int64) (*traffic, error) {
	t := &traffic{rand: rand.New(rand.NewPCG(1, uint64(tenants))), tenants: loadcheck.Zipf(tenants, 1.1), now: now,
		records: records{}}
	t.db = memdynamo.New(func() int64 { return t.now })
	var err error
	t.limiter, err = limiter.Open(ctx, memory{Lister: t.db}, "limits", &limiter.Options{Register: true,
		Now: func() time.Time { return time.UnixMilli(t.now) }, MaxBuckets: tenants, ConfigTTL: 24 * time.Hour,
		Timeout: time.Minute}) // a busy machine takes its time
	t.db.Drain()
	return t, err
}

// second plays so many acquires in the second that begins now, and returns their
// records.
func (t *traffic) second(ctx context.Context, perSecond int) ([]eventsource.Record, error) {
	if err := t.acquires(ctx, perSecond); err != nil {
		return nil, err
	}
	var out []eventsource.Record
	for _, c := range t.db.Drain() {
		if c.Key.SK == layout.SKBucketState { // the filter of the mapping
			out = append(out, t.records.of(c))
		}
	}
	return out, nil
}

// acquires acquires. Now is the next second then.
func (t *traffic) acquires(ctx context.Context, perSecond int) error {
	begin := t.now
	for i := range perSecond {
		t.now = begin + int64(i)*1000/int64(perSecond)
		tenant := t.tenants.Draw(t.rand)
		if t.inTurn {
			tenant = int(t.granted) % len(t.tenants)
		}
		_, err := t.limiter.Acquire(ctx, limiter.Request{Entity: fmt.Sprintf("customer-%06d", tenant), Resource: resource,
			Costs: limiter.Costs{"rpm": requests, "tpm": tokens}, Limits: limits})
		if err != nil {
			return err
		}
		t.granted++
	}
	t.now = begin + 1000
	return nil
}

// counted returns the sum of the snapshots of a kind of window.
func counted(items []item.Item, window string) (requests, tokens int64, err error) {
	for _, it := range items {
		if ledger.WindowOf(it) != window {
			continue
		}
		s, err := ledger.DecodeSnapshot(it)
		if err != nil {
			return 0, 0, err
		}
		requests += s.Counts["rpm"]
		tokens += s.Counts["tpm"]
	}
	return requests, tokens, nil
}
