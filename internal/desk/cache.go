package desk

import (
	"container/list"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// cache holds all desks, in the only map by bucket. It is safe for concurrent use.
//
// It remembers a bounded number; the least recently used desk is evicted first. As many again are
// kept after that if they have taken tokens ahead: their next write reports the expired ones. A
// pinned desk is in use, and stays until its last pin is removed.
//
// mu is taken after all other locks of the client, except the lock of a decide.Bucket. So a
// goroutine that holds one of them may look up desks and pin them.
type cache struct {
	Options
	mu     sync.Mutex
	by     map[decide.Name]*Desk
	recent list.List // of *Desk, as owing, the least recently used first
	owing  list.List
}

// position is a desk's position among the desks, whose mu guards it.
type position struct {
	pins int           // how many users keep it from being evicted
	in   *list.List    // recent or owing; nil: it is pinned
	at   *list.Element // of in
}

func newCache(o Options) *cache { return &cache{Options: o, by: make(map[decide.Name]*Desk)} }

// Of returns the desk of a bucket.
func (ds *cache) Of(n decide.Name) *Desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.at(n)
	ds.use(k)
	return k
}

// Get is Of, but returns nil instead of creating a desk.
func (ds *cache) Get(n decide.Name) *Desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.by[n]
	if k != nil {
		ds.use(k)
	}
	return k
}

// Peek is Get, but the bucket does not count as used.
func (ds *cache) Peek(n decide.Name) *Desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.by[n]
}

// Pin is Of, and keeps the desk from being evicted until Unpin.
func (ds *cache) Pin(n decide.Name) *Desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.at(n)
	k.position.pins++
	ds.move(k, nil)
	ds.trim()
	return k
}

// Unpin removes one pin. The bucket counts as used.
func (ds *cache) Unpin(n decide.Name) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.by[n]
	if k == nil || k.position.pins == 0 {
		panic("bug: a desk is unpinned that is not pinned")
	}
	k.position.pins--
	ds.use(k)
}

// full reports whether as many desks are pinned as the cache remembers.
func (ds *cache) full() bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return len(ds.by)-ds.recent.Len()-ds.owing.Len() >= ds.Size
}

func (ds *cache) all() []*Desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.Collect(maps.Values(ds.by))
}

// see remembers an image that came with the answer to a call that took nothing.
func (ds *cache) see(b table.Shard, now int64, since int) {
	ds.Of(decide.Name{Entity: b.Entity, Resource: b.Resource}).See(b, now, since)
}

// at returns the desk of a bucket, a new one if there is none. The caller holds mu, as for all
// methods that follow.
func (ds *cache) at(n decide.Name) *Desk {
	k := ds.by[n]
	if k == nil {
		k = &Desk{Bucket: decide.NewBucket(&ds.Settings), Name: n}
		if ds.Notes != nil {
			k.Notes = ds.Notes()
		}
		ds.by[n] = k
	}
	return k
}

// use makes a desk the most recently used one, and evicts another if there are too many then.
func (ds *cache) use(k *Desk) {
	if k.position.pins > 0 {
		return
	}
	ds.move(k, &ds.recent)
	ds.trim()
}

// trim evicts surplus desks. Desks in use count too, but leave room for half as many others as the
// cache remembers.
func (ds *cache) trim() {
	used := len(ds.by) - ds.recent.Len() - ds.owing.Len()
	for ds.recent.Len() > max(ds.Size-used, (ds.Size+1)/2) {
		oldest := ds.recent.Front().Value.(*Desk)
		if !oldest.TakesAhead() {
			ds.evict(oldest)
		} else if ds.move(oldest, &ds.owing); ds.owing.Len() > ds.Size {
			ds.evict(ds.owing.Front().Value.(*Desk))
		}
	}
}

// move puts a desk at the end of a list, nil for none.
func (ds *cache) move(k *Desk, to *list.List) {
	p := &k.position
	if p.in == to && to != nil {
		to.MoveToBack(p.at)
		return
	}
	if p.in != nil {
		p.in.Remove(p.at)
	}
	if p.in, p.at = to, nil; to != nil {
		p.at = to.PushBack(k)
	}
}

func (ds *cache) evict(k *Desk) {
	ds.move(k, nil)
	delete(ds.by, k.Name)
}

// facets are the same part of all desks, as packages see it that know no desk.
type facets[T any] struct {
	*cache
	of func(*Desk) *T
}

// Find returns the part of a bucket, nil if that has no desk.
func (p facets[T]) Find(n decide.Name) *T {
	if k := p.Peek(n); k != nil {
		return p.of(k)
	}
	return nil
}

// Pin returns the part of a bucket, whose desk is pinned until Unpin.
func (p facets[T]) Pin(n decide.Name) *T { return p.of(p.cache.Pin(n)) }

// Unpin ends one pin.
func (p facets[T]) Unpin(n decide.Name) { p.cache.Unpin(n) }

// Desk is where the requests of this process for one bucket meet. It owns everything that this
// process has of the bucket: its images, requests with a call under way, requests that wait for
// tokens, the slots of leases, the local share, and the breaker.
type Desk struct {
	*decide.Bucket
	Name      decide.Name
	Notes     any            // made by Options.Notes
	Throttled Breaker        // of requests that were throttled: a hot bucket is its own trouble
	local     *localBucket   // guarded by Locals.mu; nil is none; the desk is pinned while there is one
	room      waitqueue.Room // the desk is pinned while somebody is in it
	shelf     inflight.Shelf // the desk is pinned while leases hold slots of it
	drain     draining
	growing   atomic.Bool // its shards are being changed; the desk is pinned meanwhile
	position  position    // among the desks
}
