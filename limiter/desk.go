package limiter

import (
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// desk is where the requests of this process for one bucket meet. It has what is known of the
// bucket, the writes under way, the requests that wait behind them, and the breaker.
type desk struct {
	*known.Bucket
	mu        sync.Mutex // of flights, and of who has gone; taken before the lock of the Bucket
	flights   flights
	valid     atomic.Pointer[valid]
	throttled breaker // of requests that were throttled: a hot bucket is its own trouble
}

// valid are limits that requests have brought, as they were passed and as they are stored.
// Neither is changed any more.
type valid struct {
	limits []Limit
	stored []bucket.Limit
}

// flights are the writes under way that take others along, by shard. They belong to a desk, whose mu
// guards them.
type flights map[int]*flight

// set notes the write that is under way on a shard, nil if none is.
func (all *flights) set(shard int, f *flight) {
	if f == nil {
		delete(*all, shard)
		return
	}
	if *all == nil {
		*all = make(flights, 1)
	}
	(*all)[shard] = f
}

// desks are those of a bounded number of buckets, least recently used out first. They are
// safe for concurrent use.
type desks struct {
	cache    *lru.Cache[known.Name, *desk]
	owing    *lru.Cache[known.Name, *desk] // that are out, and know what ended unspent: the next write tells it
	settings known.Settings
}

func newDesks(size int, settings known.Settings) *desks {
	owing, err := lru.New[known.Name, *desk](size)
	if err != nil {
		panic("bug: " + err.Error()) // the size is validated
	}
	cache, _ := lru.NewWithEvict(size, func(n known.Name, k *desk) {
		if k.TakesAhead() {
			owing.Add(n, k)
		}
	})
	return &desks{cache: cache, owing: owing, settings: settings}
}

// of returns the desk of a bucket.
func (ds *desks) of(n known.Name) *desk {
	if k, ok := ds.cache.Get(n); ok {
		return k
	}
	k, owes := ds.owing.Peek(n)
	if owes {
		ds.owing.Remove(n)
	} else {
		k = &desk{Bucket: known.NewBucket(&ds.settings)}
	}
	return ds.add(n, k, owes)
}

// add remembers a desk, and returns the one that is remembered: if another request was faster, that of it. The
// given one is kept then if it owes something.
func (ds *desks) add(n known.Name, k *desk, owes bool) *desk {
	old, ok, _ := ds.cache.PeekOrAdd(n, k)
	if !ok {
		return k
	}
	if owes && old != k {
		ds.owing.Add(n, k)
	}
	return old
}

// get is of, without making a desk: then nil.
func (ds *desks) get(n known.Name) *desk {
	k, _ := ds.cache.Get(n)
	return k
}

// peek is get, by which the bucket does not count as used.
func (ds *desks) peek(n known.Name) *desk {
	k, _ := ds.cache.Peek(n)
	return k
}

// see remembers an image that came with the answer to a call that took nothing.
func (ds *desks) see(b table.Shard, now int64, since int) {
	ds.of(known.Name{Entity: b.Entity, Resource: b.Resource}).See(b, now, since)
}
