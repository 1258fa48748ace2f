package limiter

import (
	"maps"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// name identifies a bucket within a namespace.
type name struct{ entity, resource string }

// seenShard is the last image of one shard.
type seenShard struct {
	bucket table.Bucket
	at     int64 // when it was seen, epoch ms
	absent bool  // the item was not there; bucket is empty
}

// view is what this process knows of a bucket. Views are immutable.
type view struct {
	count  int // largest shard count seen, at least 1
	shards map[int]seenShard
	races  races
}

// races is the share, of 1024, of the latest writes planned from an image that
// were refused because somebody else had written: an average in which each write
// counts for an eighth.
type races int

func (r races) lost() races { return r + (1024-r)/8 }
func (r races) won() races  { return r - r/8 }

// images remembers the last image of each bucket shard, for a bounded number of
// buckets. It is safe for concurrent use and holds no lock during I/O.
type images struct {
	mu    sync.Mutex
	cache *lru.Cache[name, view]
}

func newImages(size int) *images {
	cache, err := lru.New[name, view](size)
	if err != nil {
		panic("bug: " + err.Error()) // the size is validated
	}
	return &images{cache: cache}
}

func (im *images) view(n name) view {
	im.mu.Lock()
	defer im.mu.Unlock()
	v, ok := im.cache.Get(n)
	if !ok {
		return view{count: 1}
	}
	return v
}

// mostShards is the highest count of shards that is believed: the most that any
// configuration allows. Looking for the tokens of a bucket costs a write for every
// shard that is not known, so one wrong attribute could ask for a million of them.
const mostShards = 1024

// see remembers an image. Answers of concurrent calls overtake each other, so
// one that is older than the image known is dropped; unless that image is from,
// the one that the call was planned with: whatever contradicts it replaces it.
func (im *images) see(b table.Bucket, now int64, from *bucket.State) {
	im.change(name{b.Entity, b.Resource}, func(v *view) { v.see(b, now, from) })
}

// seeAfter is see for the answer to a charge, and remembers whether that came
// first.
func (im *images) seeAfter(b table.Bucket, now int64, from *bucket.State, won bool) {
	im.change(name{b.Entity, b.Resource}, func(v *view) {
		if from != nil {
			v.race(won)
		}
		if won {
			from = nil // it contradicts nothing
		}
		v.see(b, now, from)
	})
}

func (v *view) see(b table.Bucket, now int64, from *bucket.State) {
	old, known := v.shards[b.State.Shard]
	replaces := from != nil && !older(*from, old.bucket.State)
	if known && !old.absent && !replaces && older(b.State, old.bucket.State) {
		return
	}
	v.shards[b.State.Shard] = seenShard{bucket: b, at: now}
	if b.State.Shards <= mostShards {
		v.count = max(v.count, b.State.Shards)
	}
}

// older tells whether image a was certainly taken before image b.
func older(a, b bucket.State) bool {
	if a.RF != b.RF {
		return a.RF < b.RF
	}
	i, j := a.Index(bucket.WCU), b.Index(bucket.WCU)
	return i >= 0 && j >= 0 && a.Slots[i].Used < b.Slots[j].Used // the meter counts every write
}

// missing remembers that a shard was not there. When it is shard 0 of an
// unsplit bucket, there is no bucket.
func (im *images) missing(n name, shard int, now int64) {
	im.change(n, func(v *view) { v.shards[shard] = seenShard{at: now, absent: true} })
}

// race remembers whether a write planned from an image came first.
func (v *view) race(won bool) {
	if won {
		v.races = v.races.won()
	} else {
		v.races = v.races.lost()
	}
}

// lost remembers that a write had to wait for another one of this process.
func (im *images) lost(n name) {
	im.change(n, func(v *view) { v.race(false) })
}

// change replaces a view by a changed copy.
func (im *images) change(n name, f func(*view)) {
	im.mu.Lock()
	defer im.mu.Unlock()
	v, _ := im.cache.Get(n)
	v.count = max(v.count, 1)
	if v.shards = maps.Clone(v.shards); v.shards == nil {
		v.shards = make(map[int]seenShard, 1)
	}
	f(&v)
	im.cache.Add(n, v)
}
