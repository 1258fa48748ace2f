package simulation

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/streams"
)

// oblivion is a table that stores nothing but its namespace: every bucket is new.
// With down it does not answer.
type oblivion struct {
	streams.DynamoDB // never called
	namespace        config.Namespace
	down             bool
}

var _ store.Store = (*oblivion)(nil)

var errDown = &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: errors.New("down")}

func (o *oblivion) Write(_ context.Context, w item.Write) (item.Item, error) {
	if o.down {
		return nil, errDown
	}
	after, held, err := w.Apply(nil)
	switch {
	case err != nil:
		return nil, &store.Failure{Kind: store.Setup, Op: "UpdateItem", Err: err}
	case !held:
		return nil, &store.Refused{}
	}
	return after, nil
}

func (o *oblivion) Transact(context.Context, string, []item.Write) error { return errDown }

func (o *oblivion) Read(_ context.Context, _ bool, keys ...item.Key) ([]item.Item, error) {
	out := make([]item.Item, len(keys))
	for i, k := range keys {
		for _, it := range []item.Item{o.namespace.Forward(), o.namespace.Reverse()} {
			if item.KeyOf(it) == k {
				out[i] = it
			}
		}
	}
	return out, nil
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryIsBounded: however many keys a process sees, its memory is that of the
// buckets that it remembers. KEYS is how many it sees; with 1,000,000 it takes a few
// minutes.
func TestMemoryIsBounded(t *testing.T) {
	const (
		perBucket = 7_000   // bytes, with configuration of an entity of its own, images and PolicyLocal
		fixed     = 500_000 // bytes
	)
	keys, remembered := 12_000, 3_000
	if testing.Short() {
		keys, remembered = 6_000, 1_000
	}
	if n, err := strconv.Atoi(os.Getenv("KEYS")); err == nil {
		keys = n
	}
	o := &oblivion{namespace: config.Namespace{ID: namespaceID, Name: "default", CreatedAt: layout.Timestamp(0)}}
	now := time.Now()
	l, err := limiter.Open(t.Context(), o, "table", &limiter.Options{
		MaxBuckets: remembered, Now: func() time.Time { return now },
	})
	check.Must(t, err)
	limits := []limiter.Limit{limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 100_000)}
	acquire := func(key int) error {
		req := limiter.Request{
			Entity: "tenant-" + strconv.Itoa(key), Resource: resource, Costs: limiter.Costs{"rpm": 1, "tpm": 800},
			Limits: limits, OnUnavailable: limiter.PolicyLocal,
		}
		_, err := l.Acquire(t.Context(), req)
		return err
	}
	before := heap()
	var half int64
	for key := range keys {
		check.Must(t, acquire(key))
		if key == keys/2 {
			half = heap() - before
		}
	}
	o.down = true // what then is granted in this process is bounded too
	for key := range 2 * remembered {
		// No share is forgotten while it is not full, so there is room for so many.
		if err := acquire(key); key < remembered && err != nil || key >= remembered && !errors.Is(err, limiter.ErrLimited) {
			t.Fatalf("key %d of %d remembered: %v", key, remembered, err)
		}
	}
	all := heap() - before
	t.Logf("%d keys, of which %d are remembered: %.1f MB after half of them, %.1f MB after all: %d bytes a bucket",
		keys, remembered, float64(half)/1e6, float64(all)/1e6, all/int64(remembered))
	if most := int64(remembered)*perBucket + fixed; all > most || half > most {
		t.Errorf("%d bytes after half of the keys, %d after all, want at most %d", half, all, most)
	}
	runtime.KeepAlive(l)
}
