package e2e

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// D5: shard 0 of a split bucket is deleted by hand. Processes that know nothing of the
// bucket are granted what the other shards hold and what is refilled, not a token more,
// and all shards are there again.
func TestShard0DeletedByHandMintsNothing(t *testing.T) {
	for _, kind := range []engine.Kind{engine.Dynoxide, engine.DynamoDBLocal} {
		t.Run(string(kind), func(t *testing.T) {
			const capacity, shards = 64, 4
			r := start(t, setup{kind: kind, shards: 2})
			tn := tenant{entity: seededEntity, resource: "gpt", limits: []limiter.Limit{limiter.PerHour("rpm", capacity)}}
			begin := time.Now()
			for k := range shards {
				r.put(r.seeded(tn, k, shards, 0).Item())
			}
			zero := item.Delete{Key: layout.BucketKey(r.ns(), tn.entity, tn.resource, 0), If: item.Exists(item.AttrPK)}
			if _, err := r.direct.Write(t.Context(), zero); err != nil {
				t.Fatal(err)
			}
			var granted atomic.Int64
			var all sync.WaitGroup
			for range 4 {
				l := r.open()
				all.Go(func() {
					for denied := 0; denied < 10; {
						_, err := l.Acquire(t.Context(), limiter.Request{Entity: tn.entity, Resource: tn.resource,
							Costs: limiter.Costs{"rpm": 1}, Limits: tn.limits})
						switch {
						case err == nil:
							granted.Add(1)
						case errors.Is(err, limiter.ErrLimited):
							denied++
							time.Sleep(20 * time.Millisecond)
						default:
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			r.rest()
			held := int64(capacity * (shards - 1) / shards)
			most := held + capacity*int64(time.Since(begin)/time.Second+1)/3600 + 1
			t.Logf("%d granted, at most %d are there", granted.Load(), most)
			if n := granted.Load(); n > most || n == 0 {
				t.Errorf("%d granted, at most %d are there", n, most)
			}
			for k := range shards {
				if b, ok := r.shard(tn.entity, tn.resource, k); !ok || b.State.Shards != shards {
					t.Errorf("shard %d: %v", k, b.State)
				}
			}
		})
	}
}
