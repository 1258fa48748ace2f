package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/streams"
)

// plainTable is a table without a network, in the place of a DynamoDB client.
type plainTable struct {
	store.Lister
	streams.DynamoDB // never called
}

// looking is the table of the aggregator.
type looking struct {
	plainTable
	c *cooling
}

// Write implements [store.Store].
func (l looking) Write(ctx context.Context, w item.Write) (item.Item, error) {
	it, err := l.plainTable.Write(ctx, w)
	if w.Target().SK == layout.SKBucketState {
		l.c.mu.Lock()
		l.c.looks++
		l.c.mu.Unlock()
	}
	return it, err
}

// TestBucketCoolsWithFewRequests: after a rush a bucket of 8 shards gets few requests,
// from one process or from several, and each process stays with a shard for a while, so
// hardly any of them writes to shard 0. The stream has four shards, and no batch shows
// two shards of the bucket. It is whole again after three times MergeAfter, a request and
// the way through the stream.
func TestBucketCoolsWithFewRequests(t *testing.T) {
	const (
		mergeAfter = 4 * time.Second
		pause      = 1200 * time.Millisecond // between requests
		way        = 2 * time.Second         // to the aggregator: to merge shard 0, and the others
		bound      = 3 * (mergeAfter + pause + way)
		most       = 16 // looks: at shard 0, at what merges into it, and at all others after that
	)
	for _, processes := range []int{1, 8} {
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				c := newCooling(t, processes, mergeAfter)
				begin := time.Now()
				for i := 0; c.shards() > 1; i++ {
					if time.Since(begin) > bound {
						t.Fatalf("%d processes: %d shards are left after %v", processes, c.shards(), bound)
					}
					if i%12 == 0 {
						c.request(i / 12)
					}
					time.Sleep(pause / 12)
					if i%5 == 0 {
						c.deliver()
					}
				}
				if c.looks > most {
					t.Errorf("%d processes: %d looks, want at most %d", processes, c.looks, most)
				}
			})
		}
	}
}

// cooling is a bucket that was hot, its clients, and the aggregator.
type cooling struct {
	t       *testing.T
	db      *memdynamo.DB
	clients []*limiter.Limiter
	agg     *streams.Aggregator
	mu      sync.Mutex
	seq     int64 // of the last change that the aggregator has seen
	looks   int   // of the aggregator
}

var coolLimit = limiter.PerMinute("rpm", 6000)

func newCooling(t *testing.T, processes int, mergeAfter time.Duration) *cooling {
	c := &cooling{t: t, db: memdynamo.New(func() int64 { return time.Now().UnixMilli() })}
	var err error
	if c.agg, err = streams.New(streams.Options{
		DynamoDB: looking{plainTable{Lister: c.db}, c}, Table: "table", MergeAfter: mergeAfter,
	}); err != nil {
		t.Fatal(err)
	}
	for range processes {
		l, err := limiter.Open(t.Context(), plainTable{Lister: c.db}, "table",
			&limiter.Options{Namespace: "ns", Register: true})
		check.Must(t, err)
		c.clients = append(c.clients, l)
	}
	c.request(0)
	for count := 1; count < 8; count *= 2 {
		for k := range count {
			b, err := table.DecodeShard(c.db.Item(layout.BucketKey(c.clients[0].NamespaceID(), "key", resource, k)))
			check.Must(t, err)
			check.Must(t, c.db.Transact(t.Context(), fmt.Sprint(count, k), table.Split(b, time.Now().UnixMilli())))
		}
	}
	for i := range 20 * processes { // each knows all shards
		c.request(i)
	}
	c.seq = c.db.Changes(0)[len(c.db.Changes(0))-1].Seq
	return c
}

func (c *cooling) request(i int) {
	c.t.Helper()
	_, err := c.clients[i%len(c.clients)].Acquire(c.t.Context(), limiter.Request{
		Entity: "key", Resource: resource, Costs: limiter.Costs{"rpm": 1}, Limits: []limiter.Limit{coolLimit},
	})
	check.Must(c.t, err)
	synctest.Wait() // splits that it has begun
}

// shards returns how many there are.
func (c *cooling) shards() (n int) {
	for _, it := range c.db.Items() {
		if _, err := table.DecodeShard(it); err == nil {
			n++
		}
	}
	return n
}

// deliver lets the aggregator handle what each shard of the stream has.
func (c *cooling) deliver() {
	lanes := map[string][]json.RawMessage{}
	for _, ch := range c.db.Changes(c.seq) {
		if c.seq = ch.Seq; ch.Key.SK == layout.SKBucketState {
			lanes[ch.Key.PK] = append(lanes[ch.Key.PK], streamtest.Record{
				Sequence: ch.SequenceNumber(), Created: ch.CreatedAt / 1000 * 1000, Old: ch.Old, New: ch.New,
			}.JSON())
		}
	}
	for _, records := range lanes {
		check.Must(c.t, check.Err(c.agg.Invoke(c.t.Context(), streamtest.PayloadOf(records...))))
	}
}
